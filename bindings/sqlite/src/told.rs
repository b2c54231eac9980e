//! What went wrong, for people: SQLite's codes say too little, so it goes to SQLite's log and to standard error.

use std::ffi::{CString, c_int};
use std::fmt;
use std::io::Write;

use ferrite_sqlite_log::Error;

use crate::abi::{self, Routines};

/// Why something was not done.
pub enum Failure {
    /// The log refused, or the pool.
    Log(Error),
    /// The VFS below failed with this code, which says more to SQLite than any of ours.
    Below { doing: &'static str, code: c_int },
}

/// What comes of a step that needs the log and the VFS below.
pub type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "{error}"),
            Self::Below { doing, code } => {
                write!(f, "{doing} the header of the database failed with SQLite's code {code}")
            }
        }
    }
}

/// The code for `result`, `code` where it is an error of ours; that is told.
pub fn code(routines: &Routines, path: &str, result: Result<(), impl Into<Failure>>, code: c_int) -> c_int {
    match result {
        Ok(()) => abi::OK,
        Err(failure) => told(routines, path, &failure.into(), code),
    }
}

/// Tells `failure`; the code for it.
pub fn told(routines: &Routines, path: &str, failure: &Failure, code: c_int) -> c_int {
    let code = match failure {
        Failure::Log(error) if error.is_want_of_space() => abi::FULL,
        Failure::Log(_) => code,
        Failure::Below { code, .. } => *code,
    };
    let failure = failure.to_string();
    let text =
        if failure.starts_with(path) { format!("ferrite: {failure}") } else { format!("ferrite: {path}: {failure}") };
    // A program without a standard error is not to end for that.
    let _ = writeln!(std::io::stderr(), "{text}");
    if let Ok(text) = CString::new(text) {
        // SAFETY: both are strings of C, and the format takes one.
        unsafe { (routines.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }
    code
}
