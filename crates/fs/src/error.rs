//! Errors of a file system. Front ends map each to one number of their own.

use ferrite_pool::{Failure, FailureKind};

use crate::format::word::AwayPage;

/// Result of an operation on a file system.
pub type Result<T> = std::result::Result<T, Error>;

/// Pages that are on SSDs.
#[derive(Debug)]
pub struct AwayPages(pub(crate) Vec<AwayPage>);

/// Errors of a file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name does not exist (ENOENT).
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken (EEXIST).
    #[error("the name exists already")]
    Exists,
    /// The file is not a directory, which the call requires (ENOTDIR).
    #[error("not a directory")]
    NotDirectory,
    /// The file is a directory, which the call does not accept (EISDIR).
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    #[error("the directory is not empty")]
    NotEmpty,
    /// More than 255 bytes of a name, or 4095 of a symbolic link (ENAMETOOLONG).
    #[error("the name is too long")]
    NameTooLong,
    /// The file has as many names as it can have (EMLINK).
    #[error("the file has too many links")]
    TooManyLinks,
    /// Neither the file system nor its pool has space left (ENOSPC).
    #[error("no space is left in the pool")]
    NoSpace,
    /// The file would be larger than files can be (EFBIG).
    #[error("the file would be too large")]
    FileTooBig,
    /// An argument is invalid (EINVAL).
    #[error("{0}")]
    Invalid(&'static str),
    /// This kind of file does not allow it (EPERM).
    #[error("{0}")]
    NotPermitted(&'static str),
    /// Opened to be read only (EROFS).
    #[error("the file system is open to be read only")]
    ReadOnly,
    /// There is no such extended attribute (ENODATA).
    #[error("no such extended attribute")]
    NoAttribute,
    /// The extended attribute is larger than the caller's buffer, or than it may be (ERANGE or E2BIG).
    #[error("the extended attribute is too large")]
    AttributeTooBig,
    /// All extended attributes of the file together are too large (ENOSPC).
    #[error("the file has no room for more extended attributes")]
    AttributesFull,
    /// There is nothing there: a seek for data or a hole past the end (ENXIO).
    #[error("nothing is there")]
    PastEnd,
    /// The inode number is none, or no longer one (ESTALE).
    #[error("the file is gone")]
    Stale,
    /// This file system cannot do that (EOPNOTSUPP).
    #[error("{0}")]
    Unsupported(&'static str),
    /// The medium holds what this program cannot have written (EIO).
    #[error("{what} of file system {name:?} is damaged at byte {at:#x} of the pool: run `ferrite fs check`")]
    Corrupt {
        /// The file system.
        name: String,
        /// The damaged part.
        what: &'static str,
        /// The offset in the pool, in bytes.
        at: u64,
    },
    /// The request cannot be fulfilled as it is, for this reason.
    #[error("{0}")]
    Refused(String),
    /// An SSD of the tier failed, or has other bytes than were written to it (EIO).
    #[error("{0}")]
    Ssd(String),
    /// These pages must be read from their SSDs first. No call of [`crate::FileSystem`] returns it.
    #[error("{} pages are on their SSDs", .0.0.len())]
    Away(AwayPages),
    /// The pool failed (EIO).
    #[error(transparent)]
    Pool(ferrite_pool::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Pool(error) => return error.into(),
            Error::NotFound | Error::Stale => FailureKind::NotFound,
            Error::Exists => FailureKind::Exists,
            Error::NoSpace | Error::AttributesFull => FailureKind::Full,
            Error::NameTooLong | Error::TooManyLinks | Error::FileTooBig | Error::AttributeTooBig => FailureKind::Limit,
            Error::Corrupt { .. } => FailureKind::Damaged,
            Error::Refused(_)
            | Error::Invalid(_)
            | Error::NotPermitted(_)
            | Error::ReadOnly
            | Error::Unsupported(_) => FailureKind::Refused,
            _ => FailureKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ferrite_pool::Error> for Error {
    fn from(error: ferrite_pool::Error) -> Self {
        match error {
            ferrite_pool::Error::Full { .. } | ferrite_pool::Error::Medium(ferrite_memory::Error::NoSpace(_)) => {
                Self::NoSpace
            }
            error => Self::Pool(error),
        }
    }
}

impl From<ferrite_memory::Error> for Error {
    fn from(error: ferrite_memory::Error) -> Self {
        ferrite_pool::Error::from(error).into()
    }
}
