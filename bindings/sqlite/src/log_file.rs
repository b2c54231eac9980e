//! A log file in the form that SQLite uses: bytes in the pool.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use ferrite_sqlite_log::JournalFile as Which;
use ferrite_sqlite_log::Result;

use crate::abi::{self, File, Methods, Routines};
use crate::database::Database;
use crate::failure;
use crate::main_file::HEAD_BYTES;

/// An open log file, in the memory that SQLite provides.
#[repr(C)]
pub struct LogFile {
    base: File,
    inner: Inner,
}

struct Inner {
    routines: Routines,
    database: Arc<Database>,
    file: Which,
    delete_on_close: bool,
}

// The file uses the memory of a database file's head.
const _: () = assert!(size_of::<LogFile>() <= HEAD_BYTES);

static METHODS: Methods = Methods {
    version: 1,
    close: Some(close),
    read: Some(read),
    write: Some(write),
    truncate: Some(truncate),
    sync: Some(sync),
    file_size: Some(file_size),
    lock: Some(ignore),
    unlock: Some(ignore),
    check_reserved_lock: Some(check_reserved_lock),
    file_control: Some(file_control),
    sector_size: Some(sector_size),
    device_characteristics: Some(device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

/// Opens log file `file` of `database` in the memory at `into`.
///
/// # Safety
/// The memory at `into` must have room for a [`LogFile`].
pub unsafe fn open(into: *mut File, routines: Routines, database: Arc<Database>, file: Which, flags: c_int) -> c_int {
    let made = match database.log.length(file) {
        Ok(None) if flags & abi::OPEN_CREATE != 0 => database.log.create(file),
        Ok(None) => return abi::CANTOPEN,
        Ok(Some(_)) => Ok(()),
        Err(error) => Err(error),
    };
    let code = failure::code(&routines, database.log.path(), made, abi::CANTOPEN);
    if code == abi::OK {
        let delete_on_close = flags & abi::OPEN_DELETEONCLOSE != 0;
        let inner = Inner { routines, database, file, delete_on_close };
        // SAFETY: the caller guarantees the conditions of this function.
        unsafe { into.cast::<LogFile>().write(LogFile { base: File { methods: &raw const METHODS }, inner }) };
    }
    code
}

/// Returns the open log file at `file`.
///
/// # Safety
/// SQLite must call with a file that [`open`] wrote and [`close`] did not end, in one thread at a time.
unsafe fn inner<'a>(file: *mut File) -> &'a Inner {
    // SAFETY: the caller guarantees the conditions of this function.
    unsafe { &(*file.cast::<LogFile>()).inner }
}

impl Inner {
    fn code(&self, result: Result<()>, code: c_int) -> c_int {
        failure::code(&self.routines, self.database.log.path(), result, code)
    }
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: SQLite closes an open file once.
    let LogFile { inner, .. } = unsafe { file.cast::<LogFile>().read() };
    if inner.database.log.ensure_ours().is_err() {
        std::mem::forget(inner);
        return abi::OK;
    }
    let deleted = if inner.delete_on_close { inner.database.log.delete(inner.file) } else { Ok(()) };
    inner.code(deleted, abi::IOERR_DELETE)
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes an open file, and room for `bytes` bytes.
    let (inner, into) = unsafe { (inner(file), room(into, bytes)) };
    match inner.database.log.read(inner.file, at as u64, into) {
        Ok(read) if read == into.len() => abi::OK,
        Ok(read) => {
            into[read..].fill(0);
            abi::IOERR_SHORT_READ
        }
        Err(error) => inner.code(Err(error), abi::IOERR_READ),
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes an open file, and `bytes` bytes to read.
    let (inner, from) = unsafe { (inner(file), std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize)) };
    inner.database.count_log_change();
    inner.code(inner.database.log.write(inner.file, at as u64, from), abi::IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    // SAFETY: SQLite passes valid pointers.
    let inner = unsafe { inner(file) };
    inner.database.count_log_change();
    inner.code(inner.database.log.truncate(inner.file, length as u64), abi::IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut File, _: c_int) -> c_int {
    // SAFETY: SQLite passes valid pointers.
    let inner = unsafe { inner(file) };
    inner.code(inner.database.log.persist(), abi::IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut File, bytes: *mut i64) -> c_int {
    // SAFETY: SQLite passes valid pointers.
    let inner = unsafe { inner(file) };
    match inner.database.log.length(inner.file) {
        Ok(length) => {
            // SAFETY: SQLite passes valid pointers.
            unsafe { *bytes = length.unwrap_or(0) as i64 };
            abi::OK
        }
        Err(error) => inner.code(Err(error), abi::IOERR_FSTAT),
    }
}

/// SQLite locks database files only.
unsafe extern "C" fn ignore(_: *mut File, _: c_int) -> c_int {
    abi::OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut File, is_reserved: *mut c_int) -> c_int {
    // SAFETY: SQLite passes valid pointers.
    unsafe { *is_reserved = 0 };
    abi::OK
}

unsafe extern "C" fn file_control(_: *mut File, _: c_int, _: *mut c_void) -> c_int {
    abi::NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut File) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_: *mut File) -> c_int {
    abi::IOCAP_POWERSAFE_OVERWRITE
}

/// Returns the memory that SQLite provides for a read.
///
/// # Safety
/// The memory at `into` must have `bytes` bytes, for this call alone.
pub unsafe fn room<'a>(into: *mut c_void, bytes: c_int) -> &'a mut [u8] {
    // SAFETY: the caller guarantees the conditions of this function.
    unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes as usize) }
}
