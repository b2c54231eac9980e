//! Errors of memories and disks.

use std::io;

/// Result of an operation on a medium.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a memory or a disk. Each message names the operation, the place, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// The operation and its object.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The request lies outside the device or is not aligned to its sectors.
    #[error("{len} bytes at {at} do not fit a device of {size} bytes with sectors of {sector_bytes}")]
    OutOfRange {
        /// First byte asked for.
        at: u64,
        /// Bytes asked for.
        len: u64,
        /// Size of the device in bytes.
        size: u64,
        /// Its sector size in bytes.
        sector_bytes: u32,
    },
    /// A write to what is read-only.
    #[error("read-only")]
    ReadOnly,
    /// There is no space for it.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The bytes there are damaged; rewriting them heals them.
    #[error("damaged data at byte {0}: rewrite it, or restore it from a backup")]
    Damaged(u64),
    /// An earlier persist failed, so nothing more is promised until it is opened again.
    #[error("poisoned by an earlier failed persist ({0}): open it again")]
    Poisoned(String),
    /// This medium or machine cannot do it.
    #[error("not supported: {0}")]
    Unsupported(String),
}

impl Error {
    /// The error of the last failed system call.
    pub fn last_os(what: impl Into<String>) -> Self {
        Self::io(what, io::Error::last_os_error())
    }

    /// `source`, told with what was being done; a full host disk becomes [`Error::NoSpace`].
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace(what.into()),
            _ => Self::Io { what: what.into(), source },
        }
    }
}
