//! Error messages for people: SQLite's codes say too little, so messages go to SQLite's log and to standard error.

use std::ffi::{CString, c_int};
use std::fmt;
use std::io::Write;

use ferrite_sqlite_log::Error;

use crate::abi::{self, Routines};

/// The reason why an operation failed.
pub enum Failure {
    /// The log or the pool refused.
    Log(Error),
    /// The VFS below failed with this code, which is more precise for SQLite than a code chosen here.
    Below { doing: &'static str, code: c_int },
}

/// The result of a step that needs the log and the VFS below.
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

/// Returns the code for `result`. An error of this library is printed and becomes `code`.
pub fn code(routines: &Routines, path: &str, result: Result<(), impl Into<Failure>>, code: c_int) -> c_int {
    match result {
        Ok(()) => abi::OK,
        Err(failure) => report(routines, path, &failure.into(), code),
    }
}

/// Prints `failure` and returns its code.
pub fn report(routines: &Routines, path: &str, failure: &Failure, code: c_int) -> c_int {
    let code = match failure {
        Failure::Log(error) if error.is_want_of_space() => abi::FULL,
        Failure::Log(_) => code,
        Failure::Below { code, .. } => *code,
    };
    let failure = failure.to_string();
    let text =
        if failure.starts_with(path) { format!("ferrite: {failure}") } else { format!("ferrite: {path}: {failure}") };
    // A program without a standard error must not end because of that.
    let _ = writeln!(std::io::stderr(), "{text}");
    if let Ok(text) = CString::new(text) {
        // SAFETY: both are C strings, and the format uses one argument.
        unsafe { (routines.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }
    code
}
