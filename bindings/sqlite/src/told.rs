//! What went wrong, for people: SQLite's codes say too little, so it goes to SQLite's log and to standard error.

use std::ffi::{CString, c_int};
use std::io::Write;

use ferrite_pool::Error as PoolError;
use ferrite_wal::{Error, Result};

use crate::abi::{self, Routines};

/// The code for `result`, `code` where it is an error; that is told.
pub fn code(routines: &Routines, path: &str, result: Result<()>, code: c_int) -> c_int {
    match result {
        Ok(()) => abi::OK,
        Err(error) => told(routines, path, &error, code),
    }
}

/// Tells `error`; the code for it.
pub fn told(routines: &Routines, path: &str, error: &Error, code: c_int) -> c_int {
    let code = if matches!(error, Error::Pool(PoolError::Full { .. })) { abi::FULL } else { code };
    let text = format!("ferrite: {path}: {error}");
    // A program without a standard error is not to end for that.
    let _ = writeln!(std::io::stderr(), "{text}");
    if let Ok(text) = CString::new(text) {
        // SAFETY: both are strings of C, and the format takes one.
        unsafe { (routines.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }
    code
}
