//! A loadable SQLite VFS: the write-ahead log and the rollback journal live in a Ferrite pool, the database file stays
//! where it is, and everything else goes to the VFS that SQLite has anyway.
//!
//! ```text
//!   file:app.db?vfs=ferrite&pool=PATH        or FERRITE_POOL=PATH
//!   load_extension(LIBRARY, 'sqlite3_ferrite_default_init') makes it the default VFS
//!
//!   app.db           the default VFS, with bytes 18 and 19 masked (see `main_file`)
//!   app.db-wal       the pool (see `log_file`)
//!   app.db-journal   the pool
//!   app.db-shm       the default VFS: locks and the index of the log are as ever
//! ```
//!
//! Unsafe throughout, because SQLite calls by pointers: what it passes is valid for the call, by its own promise.
#![allow(unsafe_code, reason = "entries that SQLite calls")]

mod abi;
mod database;
mod log_file;
mod main_file;
mod told;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

use abi::Api;

/// The entry that SQLite looks for in any extension.
///
/// # Safety
/// Called by SQLite, which passes its routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(_: *mut c_void, _: *mut *mut c_char, api: *const Api) -> c_int {
    // SAFETY: SQLite passes its routines, which stay for as long as the program runs.
    unsafe { vfs::register((*api).routines(), false) }
}

/// The entry by this library's name.
///
/// # Safety
/// As [`sqlite3_extension_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ferritesqlite_init(
    database: *mut c_void,
    message: *mut *mut c_char,
    api: *const Api,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { sqlite3_extension_init(database, message, api) }
}

/// An entry to be named: from then on every database of the process is opened by this VFS, unless another is asked for.
///
/// # Safety
/// As [`sqlite3_extension_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ferrite_default_init(_: *mut c_void, _: *mut *mut c_char, api: *const Api) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { vfs::register((*api).routines(), true) }
}
