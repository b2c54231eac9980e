//! The one table that maps errors to the error numbers of the protocol.

use ferrite_memory::Error;

/// Not permitted: a write to a read-only disk.
pub const EPERM: u32 = 1;
/// The medium failed.
pub const EIO: u32 = 5;
/// The request is invalid here.
pub const EINVAL: u32 = 22;
/// No space, or a write beyond the end.
pub const ENOSPC: u32 = 28;
/// A fast zero that would be slow.
pub const ENOTSUP: u32 = 95;

/// The reason why a request failed, as reported to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Error number of the protocol.
    pub errno: u32,
    /// Text for people.
    pub text: String,
    /// Offset on the disk of a failed read: the data sent for earlier offsets is valid.
    pub at: Option<u64>,
}

impl Fault {
    /// Creates a fault of the whole request.
    pub fn new(errno: u32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), at: None }
    }

    /// Creates the fault of a failed zeroing. A `fast` one that would be slow is no failure of the disk.
    pub fn of_zeroing(error: Error, fast: bool) -> Self {
        match error {
            Error::Unsupported(text) if fast => Self::new(ENOTSUP, text),
            other => other.into(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let errno = match &error {
            Error::ReadOnly => EPERM,
            Error::NoSpace(_) => ENOSPC,
            // Clients interpret ENOTSUP only as "fast zeroes would be slow"; requests for fast zeroes map the error
            // themselves.
            Error::OutOfRange { .. } | Error::Unsupported(_) => EINVAL,
            Error::Io { .. } | Error::Damaged(_) | Error::Poisoned(_) => EIO,
        };
        Self::new(errno, error.to_string())
    }
}
