//! The database file as SQLite sees it: the default VFS's, but for the two versions in its header.
//!
//! ```text
//!   MainFile | the default VFS's file, opened behind it in the same room
//! ```
//!
//! - SV1. Before anything can be in the log, the header on disk says version 3 twice, durably; the pool has what it would
//!   say. So it is done with the first lock that leads to writing, or to a write-ahead log.
//! - SV2. Reads show what the header would say; writes of it change the pool's word and leave the 3s.
//! - SV3. The header gets its own versions back when a connection closes that can have the file for itself and finds
//!   nothing in the log.
//! - SV4. A child of fork does nothing by a connection of its parent's but to unlock and to close, which it does for itself
//!   alone: the rest is refused (WF6).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use ferrite_wal::database::Mark;
use header::{ensure_here, ensure_marked, unmark};

use crate::abi::{self, File, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED, Methods, Routines};
use crate::database::Database;
use crate::log_file::room;
use crate::told::{self, Failure};

/// An open database file, in the room that SQLite gives; the default VFS's follows it.
#[repr(C)]
pub struct MainFile {
    base: File,
    routines: Routines,
    database: Arc<Database>,
    is_read_only: bool,
    /// The header was seen to say what the pool's word says, in this connection.
    is_checked: Cell<bool>,
}

/// Bytes before the default VFS's file.
pub const HEAD_BYTES: usize = size_of::<MainFile>().next_multiple_of(16);

/// Where the versions end in the header.
const END: i64 = Mark::END as i64;

/// One for each version that the default VFS's file may have.
static METHODS: [Methods; 3] = [methods(1), methods(2), methods(3)];

const fn methods(version: c_int) -> Methods {
    Methods {
        version,
        close: Some(close),
        read: Some(read),
        write: Some(write),
        truncate: Some(truncate),
        settle: Some(settle),
        file_size: Some(file_size),
        lock: Some(lock),
        unlock: Some(unlock),
        check_reserved_lock: Some(check_reserved_lock),
        file_control: Some(file_control),
        sector_size: Some(sector_size),
        device_characteristics: Some(device_characteristics),
        shm_map: Some(shm_map),
        shm_lock: Some(shm_lock),
        shm_barrier: Some(shm_barrier),
        shm_unmap: Some(shm_unmap),
        fetch: Some(fetch),
        unfetch: Some(unfetch),
    }
}

/// The file of the default VFS behind `file`.
pub fn below(file: *mut File) -> *mut File {
    file.wrapping_byte_add(HEAD_BYTES)
}

/// Makes the room at `into` a database file, whose part below is open.
///
/// # Safety
/// There is room at `into`, and the file below is open.
pub unsafe fn make(into: *mut File, routines: Routines, database: Arc<Database>, is_read_only: bool) {
    // SAFETY: the caller's promise.
    let version = unsafe { (*(*below(into)).methods).version };
    let base = File { methods: &raw const METHODS[version.clamp(1, 3) as usize - 1] };
    let made = MainFile { base, routines, database, is_read_only, is_checked: Cell::new(false) };
    // SAFETY: the caller's promise.
    unsafe { into.cast::<MainFile>().write(made) };
}

/// Calls a method of the file below, in whichever process.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let below = below($file);
        // SAFETY: SQLite's promise of an open file; the one below is open as long as this one.
        match unsafe { (*(*below).methods).$method } {
            // SAFETY: the same; the arguments are passed on as SQLite gave them.
            Some(method) => unsafe { method(below $(, $argument)*) },
            None => abi::IOERR,
        }
    }};
}

/// Calls a method of the file below, if this process opened it (SV4).
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {
        match ensure_ours($file) {
            abi::OK => pass_on!($file, $method $(, $argument)*),
            code => code,
        }
    };
}

mod header;

pub use header::{settle_given, versions, versions_below};

/// What is open at `file`.
///
/// # Safety
/// SQLite calls with a file that [`make`] made and [`close`] did not end, in one thread at a time.
unsafe fn this<'a>(file: *mut File) -> &'a MainFile {
    // SAFETY: the caller's promise.
    unsafe { &*file.cast::<MainFile>() }
}

impl MainFile {
    fn code(&self, result: Result<(), impl Into<Failure>>, code: c_int) -> c_int {
        told::code(&self.routines, self.database.log.path(), result, code)
    }
}

/// What is open at `file`, and whether this process opened it (SV4).
fn owned<'a>(file: *mut File) -> (&'a MainFile, ferrite_wal::Result<()>) {
    // SAFETY: SQLite's promise of an open file.
    let main = unsafe { this(file) };
    (main, main.database.log.ensure_ours())
}

fn ensure_ours(file: *mut File) -> c_int {
    let (main, ours) = owned(file);
    main.code(ours, abi::IOERR)
}

fn is_ours(file: *mut File) -> bool {
    owned(file).1.is_ok()
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    if !is_ours(file) {
        return pass_on!(file, close);
    }
    // There is no lock on it.
    let unmarked = unmark(file);
    let closed = pass!(file, close);
    // SAFETY: SQLite closes an open file once; nothing is done with it afterwards.
    let main = unsafe { file.cast::<MainFile>().read() };
    main.code(unmarked, abi::IOERR);
    closed
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, bytes: c_int, at: i64) -> c_int {
    let code = pass!(file, read, into, bytes, at);
    if at >= END || at + i64::from(bytes) <= Mark::AT as i64 || !matches!(code, abi::OK | abi::IOERR_SHORT_READ) {
        return code;
    }
    // SAFETY: SQLite's promise: an open file, and room for so many bytes.
    let (main, into) = unsafe { (this(file), room(into, bytes)) };
    match main.database.log.mark() {
        Ok(Some(mark)) => {
            mask(into, at, [mark.write, mark.read]);
            code
        }
        Ok(None) => code,
        Err(error) => main.code(Err(error), abi::IOERR_READ),
    }
}

/// Shows `versions` where `bytes` from byte `at` of the file on say 3 (SV2).
fn mask(bytes: &mut [u8], at: i64, versions: [u8; 2]) {
    for (place, version) in (Mark::AT as i64..).zip(versions) {
        let byte = usize::try_from(place - at).ok().and_then(|place| bytes.get_mut(place));
        if let Some(byte) = byte.filter(|byte| **byte == Mark::FOREIGN) {
            *byte = version;
        }
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, bytes: c_int, at: i64) -> c_int {
    if at > Mark::AT as i64 || at + i64::from(bytes) < END {
        return pass!(file, write, from, bytes, at);
    }
    // SAFETY: SQLite's promise: an open file, and so many bytes to read.
    let (main, from) = unsafe { (this(file), std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize)) };
    let log = &main.database.log;
    let place = (Mark::AT as i64 - at) as usize;
    let noted = log.mark().and_then(|mark| match mark.filter(|mark| mark.is_on_disk) {
        Some(mark) => {
            let [write, read] = [from[place], from[place + 1]];
            if [write, read] != [mark.write, mark.read] {
                log.set_mark(Some(Mark { write, read, ..mark }))?;
            }
            Ok(true)
        }
        None => Ok(false),
    });
    match noted {
        Ok(false) => pass!(file, write, from.as_ptr().cast(), bytes, at),
        Ok(true) => {
            let mut masked = from.to_vec();
            masked[place..place + 2].fill(Mark::FOREIGN);
            pass!(file, write, masked.as_ptr().cast(), bytes, at)
        }
        Err(error) => main.code(Err(error), abi::IOERR_WRITE),
    }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    let code = pass!(file, lock, level);
    if code != abi::OK {
        return code;
    }
    let allowed = if level >= LOCK_RESERVED { ensure_marked(file) } else { ensure_here(file) };
    if allowed.is_err() {
        pass!(file, unlock, if level == LOCK_SHARED { LOCK_NONE } else { LOCK_SHARED });
    }
    // SAFETY: SQLite's promise.
    unsafe { this(file) }.code(allowed, abi::IOERR_LOCK)
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    into: *mut *mut c_void,
) -> c_int {
    // SQLite has a shared lock wherever it uses the index of a log.
    let (main, _) = owned(file);
    let marked = if main.is_read_only { Ok(()) } else { ensure_marked(file) };
    match main.code(marked, abi::IOERR_LOCK) {
        abi::OK => pass!(file, shm_map, region, bytes, extend, into),
        code => code,
    }
}

unsafe extern "C" fn fetch(file: *mut File, at: i64, bytes: c_int, into: *mut *mut c_void) -> c_int {
    if at < END {
        // The header is not shown as it lies there; SQLite reads it instead.
        // SAFETY: SQLite's promise.
        unsafe { *into = std::ptr::null_mut() };
        return abi::OK;
    }
    pass!(file, fetch, at, bytes, into)
}

unsafe extern "C" fn unfetch(file: *mut File, at: i64, page: *mut c_void) -> c_int {
    pass_on!(file, unfetch, at, page)
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    pass!(file, truncate, length)
}

unsafe extern "C" fn settle(file: *mut File, flags: c_int) -> c_int {
    pass!(file, settle, flags)
}

unsafe extern "C" fn file_size(file: *mut File, bytes: *mut i64) -> c_int {
    pass!(file, file_size, bytes)
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    pass_on!(file, unlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, is_reserved: *mut c_int) -> c_int {
    pass!(file, check_reserved_lock, is_reserved)
}

unsafe extern "C" fn file_control(file: *mut File, what: c_int, argument: *mut c_void) -> c_int {
    pass!(file, file_control, what, argument)
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    pass_on!(file, sector_size)
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    pass_on!(file, device_characteristics)
}

unsafe extern "C" fn shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    if flags & abi::SHM_UNLOCK != 0 {
        return pass_on!(file, shm_lock, first, count, flags);
    }
    pass!(file, shm_lock, first, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    let below = below(file);
    // SAFETY: SQLite's promise of an open file; the one below is open as long as this one.
    if let Some(method) = unsafe { (*(*below).methods).shm_barrier } {
        // SAFETY: the same.
        unsafe { method(below) };
    }
}

unsafe extern "C" fn shm_unmap(file: *mut File, delete: c_int) -> c_int {
    pass_on!(file, shm_unmap, if is_ours(file) { delete } else { 0 })
}
