//! The database file in the form that SQLite uses: the default VFS's file, except the two versions in its header.
//!
//! ```text
//!   MainFile | the default VFS's file, opened behind it in the same memory
//! ```
//!
//! - SV1. Before the log can have content, the header on disk says version 3 twice, durably; the pool has the versions
//!   that it would say otherwise. So this is done with the first lock that leads to writing, or to a write-ahead log.
//! - SV2. Reads show the header's own versions; writes of them change the pool's word and leave the 3s.
//! - SV3. The header gets its own versions back when a connection closes that can lock the file exclusively and finds
//!   the log empty.
//! - SV4. A child of fork uses a connection of its parent only to unlock and to close, which affects only the child.
//!   All other calls are refused (WF6).
//! - SV5. Bytes 72 to 92 of the header are the stamp of the tie (WF10): reads show zeros, and writes keep the stamp.
//!   The tie advances before the first write to the file that follows a lock or, under an exclusive lock, a change of
//!   the log. A lock comes before a checkpoint of any kind. A change of the journal comes before writes of pages whose
//!   originals the journal has.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use ferrite_pool::tie::{STAMP_BYTES, TieRole};
use ferrite_sqlite_log::{DatabaseMark, HEAD_BYTES as HEADER_BYTES, STAMP_AT};

use crate::abi::{self, File, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED, Methods, Routines};
use crate::database::Database;
use crate::failure::{self, Failure, Outcome};
use crate::log_file::room;

use header::{ensure_here, ensure_marked, unmark};

/// An open database file, in the memory that SQLite provides; the default VFS's file follows it.
#[repr(C)]
pub struct MainFile {
    base: File,
    routines: Routines,
    database: Arc<Database>,
    is_read_only: bool,
    /// True if this connection has verified that the header matches the pool's word.
    is_checked: Cell<bool>,
    /// The lock that the connection has on the file.
    level: Cell<c_int>,
    /// The number of changes of the log when the tie advanced, unless a lock was acquired since (SV5).
    advanced_at: Cell<Option<u64>>,
}

/// Number of bytes before the default VFS's file.
pub const HEAD_BYTES: usize = size_of::<MainFile>().next_multiple_of(16);

/// The end of the versions in the header, in bytes.
const END: i64 = DatabaseMark::END as i64;

/// The methods for each version that the default VFS's file may have.
static METHODS: [Methods; 3] = [methods(1), methods(2), methods(3)];

const fn methods(version: c_int) -> Methods {
    Methods {
        version,
        close: Some(close),
        read: Some(read),
        write: Some(write),
        truncate: Some(truncate),
        sync: Some(sync),
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

/// Returns the file of the default VFS behind `file`.
pub fn below(file: *mut File) -> *mut File {
    file.wrapping_byte_add(HEAD_BYTES)
}

/// Makes the memory at `into` a database file, whose part below is open.
///
/// # Safety
/// The memory at `into` must have room, and the file below must be open.
pub unsafe fn make(into: *mut File, routines: Routines, database: Arc<Database>, is_read_only: bool) {
    // SAFETY: the caller guarantees the conditions of this function.
    let version = unsafe { (*(*below(into)).methods).version };
    let base = File { methods: &raw const METHODS[version.clamp(1, 3) as usize - 1] };
    let (is_checked, level, advanced_at) = (Cell::new(false), Cell::new(LOCK_NONE), Cell::new(None));
    let made = MainFile { base, routines, database, is_read_only, is_checked, level, advanced_at };
    // SAFETY: the caller guarantees the conditions of this function.
    unsafe { into.cast::<MainFile>().write(made) };
}

/// Calls a method of the file below, in whichever process.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let below = below($file);
        // SAFETY: SQLite passes an open file; the file below is open for as long as this one.
        match unsafe { (*(*below).methods).$method } {
            // SAFETY: the method belongs to the open file below; the arguments are the ones that SQLite passed.
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

pub use header::{Below, header_below, sync_given};

/// Returns the open database file at `file`.
///
/// # Safety
/// SQLite must call with a file that [`make`] made and [`close`] did not end, in one thread at a time.
unsafe fn this<'a>(file: *mut File) -> &'a MainFile {
    // SAFETY: the caller guarantees the conditions of this function.
    unsafe { &*file.cast::<MainFile>() }
}

impl MainFile {
    fn code(&self, result: Result<(), impl Into<Failure>>, code: c_int) -> c_int {
        failure::code(&self.routines, self.database.log.path(), result, code)
    }

    /// Returns the bytes to write to a marked header instead of `from` at byte `at`: the pool has the versions (SV2),
    /// and the stamp stays (SV5). Returns `None` if the header is not marked.
    fn masked(&self, from: &[u8], at: i64) -> ferrite_sqlite_log::Result<Option<Vec<u8>>> {
        let log = &self.database.log;
        let Some(mark) = log.mark()?.filter(|mark| mark.is_on_disk) else { return Ok(None) };
        let place = usize::try_from(DatabaseMark::AT as i64 - at).ok();
        if let Some([write, read]) = place.and_then(|place| from.get(place..place + 2)?.first_chunk().copied())
            && [write, read] != [mark.write, mark.read]
        {
            log.set_mark(Some(DatabaseMark { write, read, ..mark }))?;
        }
        let mut masked = from.to_vec();
        overlay(&mut masked, at, DatabaseMark::AT, &[DatabaseMark::FOREIGN; 2]);
        overlay(&mut masked, at, STAMP_AT, &log.tie()?.stamp().encode(TieRole::Sqlite));
        Ok(Some(masked))
    }
}

/// Returns the open database file at `file`, and an error if another process opened it (SV4).
fn owned<'a>(file: *mut File) -> (&'a MainFile, ferrite_sqlite_log::Result<()>) {
    // SAFETY: SQLite passes an open file.
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
    // The connection has no lock on the file.
    let unmarked = unmark(file);
    let closed = pass!(file, close);
    // SAFETY: SQLite closes an open file once and does not use it afterwards.
    let main = unsafe { file.cast::<MainFile>().read() };
    main.code(unmarked, abi::IOERR);
    closed
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, bytes: c_int, at: i64) -> c_int {
    let code = pass!(file, read, into, bytes, at);
    if !is_of_header(at, bytes) || !matches!(code, abi::OK | abi::IOERR_SHORT_READ) {
        return code;
    }
    // SAFETY: SQLite passes an open file, and room for `bytes` bytes.
    let (main, into) = unsafe { (this(file), room(into, bytes)) };
    match main.database.log.mark() {
        Ok(Some(mark)) => {
            mask(into, at, [mark.write, mark.read]);
            overlay(into, at, STAMP_AT, &[0; STAMP_BYTES]);
            code
        }
        Ok(None) => code,
        Err(error) => main.code(Err(error), abi::IOERR_READ),
    }
}

/// Returns true if the `bytes` bytes at `at` overlap the versions or the stamp.
fn is_of_header(at: i64, bytes: c_int) -> bool {
    let end = at + i64::from(bytes);
    (at < END && end > DatabaseMark::AT as i64) || (at < HEADER_BYTES as i64 && end > STAMP_AT as i64)
}

/// Copies `what`, which is at byte `place` of the file, over the overlapping part of `bytes`; they are at byte `at`.
fn overlay(bytes: &mut [u8], at: i64, place: u64, what: &[u8]) {
    for (place, from) in (place as i64..).zip(what) {
        if let Some(byte) = usize::try_from(place - at).ok().and_then(|place| bytes.get_mut(place)) {
            *byte = *from;
        }
    }
}

/// Shows `versions` if `bytes` from byte `at` of the file on say 3 (SV2).
fn mask(bytes: &mut [u8], at: i64, versions: [u8; 2]) {
    for (place, version) in (DatabaseMark::AT as i64..).zip(versions) {
        let byte = usize::try_from(place - at).ok().and_then(|place| bytes.get_mut(place));
        if let Some(byte) = byte.filter(|byte| **byte == DatabaseMark::FOREIGN) {
            *byte = version;
        }
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes an open file, and `bytes` bytes to read.
    let (main, from) = unsafe { (this(file), std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize)) };
    if let Err(failure) = ensure_advanced(file) {
        return main.code(Err(failure), abi::IOERR_WRITE);
    }
    if !is_of_header(at, bytes) {
        return pass!(file, write, from.as_ptr().cast(), bytes, at);
    }
    match main.masked(from, at) {
        Ok(None) => pass!(file, write, from.as_ptr().cast(), bytes, at),
        Ok(Some(masked)) => pass!(file, write, masked.as_ptr().cast(), bytes, at),
        Err(error) => main.code(Err(error), abi::IOERR_WRITE),
    }
}

/// Advances the tie before the file is changed, unless it has advanced since the last lock or change of the log (SV5).
fn ensure_advanced(file: *mut File) -> Outcome<()> {
    let (main, ours) = owned(file);
    ours?;
    let (log, changes) = (&main.database.log, main.database.log_changes());
    // With less than an exclusive lock other connections may change the log; this write does not contain their changes.
    let is_advanced = |at| main.level.get() < LOCK_EXCLUSIVE || at == changes;
    if main.advanced_at.get().is_some_and(is_advanced) {
        return Ok(());
    }
    if log.mark()?.is_some_and(|mark| mark.is_on_disk) {
        log.advance(&Below(file))?;
        main.advanced_at.set(Some(changes));
    }
    Ok(())
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    let code = pass!(file, lock, level);
    if code != abi::OK {
        return code;
    }
    let (main, _) = owned(file);
    main.level.set(level);
    main.advanced_at.set(None);
    let allowed = if level >= LOCK_RESERVED { ensure_marked(file) } else { ensure_here(file) };
    if allowed.is_err() {
        let left = if level == LOCK_SHARED { LOCK_NONE } else { LOCK_SHARED };
        pass!(file, unlock, left);
        main.level.set(left);
    }
    main.code(allowed, abi::IOERR_LOCK)
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    into: *mut *mut c_void,
) -> c_int {
    // SQLite holds a shared lock whenever it uses the index of a log.
    let (main, _) = owned(file);
    let marked = if main.is_read_only { Ok(()) } else { ensure_marked(file) };
    match main.code(marked, abi::IOERR_LOCK) {
        abi::OK => pass!(file, shm_map, region, bytes, extend, into),
        code => code,
    }
}

unsafe extern "C" fn fetch(file: *mut File, at: i64, bytes: c_int, into: *mut *mut c_void) -> c_int {
    if at < HEADER_BYTES as i64 {
        // A mapping would show the header on disk, so the result is null and SQLite reads the header instead.
        // SAFETY: SQLite passes a valid pointer.
        unsafe { *into = std::ptr::null_mut() };
        return abi::OK;
    }
    pass!(file, fetch, at, bytes, into)
}

unsafe extern "C" fn unfetch(file: *mut File, at: i64, page: *mut c_void) -> c_int {
    pass_on!(file, unfetch, at, page)
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    if let Err(failure) = ensure_advanced(file) {
        return owned(file).0.code(Err(failure), abi::IOERR_TRUNCATE);
    }
    pass!(file, truncate, length)
}

unsafe extern "C" fn sync(file: *mut File, flags: c_int) -> c_int {
    pass!(file, sync, flags)
}

unsafe extern "C" fn file_size(file: *mut File, bytes: *mut i64) -> c_int {
    pass!(file, file_size, bytes)
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    owned(file).0.level.set(level);
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
    // In a batch the stamp would not be written before the pages.
    pass_on!(file, device_characteristics) & !abi::IOCAP_BATCH_ATOMIC
}

unsafe extern "C" fn shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    if flags & abi::SHM_UNLOCK != 0 {
        return pass_on!(file, shm_lock, first, count, flags);
    }
    let code = pass!(file, shm_lock, first, count, flags);
    if code == abi::OK && flags & abi::SHM_EXCLUSIVE != 0 {
        owned(file).0.advanced_at.set(None);
    }
    code
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    let below = below(file);
    // SAFETY: SQLite passes an open file; the file below is open for as long as this one.
    if let Some(method) = unsafe { (*(*below).methods).shm_barrier } {
        // SAFETY: the method belongs to the open file below.
        unsafe { method(below) };
    }
}

unsafe extern "C" fn shm_unmap(file: *mut File, delete: c_int) -> c_int {
    pass_on!(file, shm_unmap, if is_ours(file) { delete } else { 0 })
}
