//! The errors of a log.

use std::io;

/// The result of an operation on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a log. Every message says what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool reported an error.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The memory reported an error.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The storage that the log drains to failed. The records that were not drained stay in the pool.
    #[error("{doing}: {source}; the rest of the log is still in the pool: repair the storage and drain again")]
    Target {
        /// The operation, and its place.
        doing: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system reported an error.
    #[error("{doing}: {source}")]
    Io {
        /// The operation, and its place.
        doing: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The log is full and draining failed: the record was not appended, and nothing is lost.
    #[error("log {name:?} is full and cannot be drained: {why}")]
    Stuck {
        /// The name of the log.
        name: String,
        /// The error of draining.
        why: Box<Error>,
    },
    /// Records in a file differ from the drained records.
    #[error(
        "segment {segment} of log {name:?} is damaged at byte {at:#x}: restore it from a backup, or truncate behind"
    )]
    Damaged {
        /// The name of the log.
        name: String,
        /// The position that names the file.
        segment: u64,
        /// The offset in the file, in bytes.
        at: u64,
    },
    /// Records that had been drained are in no file.
    #[error(
        "position {position} of log {name:?} is in no file of {place}: restore its files from a backup, or truncate behind"
    )]
    Missing {
        /// The name of the log.
        name: String,
        /// The position of the records.
        position: u64,
        /// The location of the files.
        place: String,
    },
    /// A segment belongs to another log, or is not a segment.
    #[error("segment {segment} is not one of log {name:?} ({what}): drain to a folder of the log's own")]
    Foreign {
        /// The name of the log.
        name: String,
        /// The position that names the file.
        segment: u64,
        /// The reason.
        what: &'static str,
    },
    /// A request exceeds a limit or is invalid.
    #[error("{0}")]
    Limit(String),
    /// A writer ended between reserving a place and filling it.
    #[error("a writer of log {0:?} ended before its record was whole: open the log again")]
    Broken(String),
}

impl Error {
    /// Returns true if the pool or its host has no space left.
    pub fn is_want_of_space(&self) -> bool {
        match self {
            Self::Pool(error) => error.is_want_of_space(),
            Self::Medium(error) => matches!(error, ferrite_memory::Error::NoSpace(_)),
            _ => false,
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    pub(crate) fn target(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Target { doing: doing.into(), source }
    }
}
