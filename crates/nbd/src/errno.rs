//! The one table from what went wrong to the error numbers of the protocol.

use ferrite_memory::Error;

/// Not permitted: a write to what is read-only.
pub const EPERM: u32 = 1;
/// The medium failed.
pub const EIO: u32 = 5;
/// The request makes no sense here.
pub const EINVAL: u32 = 22;
/// No space, or a write beyond the end.
pub const ENOSPC: u32 = 28;
/// A fast zero that would be slow.
pub const ENOTSUP: u32 = 95;

/// Why a request failed, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Error number of the protocol.
    pub errno: u32,
    /// Text for people.
    pub text: String,
    /// Where on the disk, for a read: what was sent of earlier offsets is valid.
    pub at: Option<u64>,
}

impl Fault {
    /// A fault of the whole request.
    pub fn new(errno: u32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), at: None }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let errno = match &error {
            Error::ReadOnly => EPERM,
            Error::NoSpace(_) => ENOSPC,
            // Clients take ENOTSUP for "fast zeroes would be slow" and nothing else; those map it themselves.
            Error::OutOfRange { .. } | Error::Unsupported(_) => EINVAL,
            Error::Io { .. } | Error::Damaged(_) | Error::Poisoned(_) => EIO,
        };
        Self::new(errno, error.to_string())
    }
}
