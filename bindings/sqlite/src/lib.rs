//! A loadable SQLite VFS that keeps the write-ahead log and the rollback journal in a Ferrite pool. The database file
//! stays in its place, and the default VFS handles all other files.
//!
//! ```text
//!   file:app.db?vfs=ferrite&pool=PATH        or FERRITE_POOL=PATH
//!   load_extension(LIBRARY, 'sqlite3_ferrite_default_init') makes it the default VFS
//!
//!   app.db           the default VFS, with bytes 18 and 19 masked (see `main_file`)
//!   app.db-wal       the pool (see `log_file`)
//!   app.db-journal   the pool
//!   app.db-shm       the default VFS: locks and the index of the log, unchanged
//! ```
//!
//! The code is unsafe throughout, because SQLite calls by pointers. SQLite guarantees that its arguments are valid for
//! the call.
#![allow(unsafe_code, reason = "entries that SQLite calls")]

mod abi;
mod database;
mod failure;
mod log_file;
mod main_file;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

use abi::Api;

/// The entry point that SQLite looks for in any extension.
///
/// # Safety
/// SQLite must call this function with its routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(_: *mut c_void, _: *mut *mut c_char, api: *const Api) -> c_int {
    // SAFETY: SQLite passes its routines, which stay for as long as the program runs.
    unsafe { vfs::register((*api).routines(), false) }
}

/// The entry point by this library's name.
///
/// # Safety
/// The conditions of [`sqlite3_extension_init`] apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ferritesqlite_init(
    database: *mut c_void,
    message: *mut *mut c_char,
    api: *const Api,
) -> c_int {
    // SAFETY: the caller guarantees the same conditions.
    unsafe { sqlite3_extension_init(database, message, api) }
}

/// The entry point for the default VFS: from then on this VFS opens every database of the process, unless the program
/// names another one.
///
/// # Safety
/// The conditions of [`sqlite3_extension_init`] apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ferrite_default_init(_: *mut c_void, _: *mut *mut c_char, api: *const Api) -> c_int {
    // SAFETY: the caller guarantees the same conditions.
    unsafe { vfs::register((*api).routines(), true) }
}
