//! What can go wrong with a log.

use std::io;

/// Result of an operation on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a log. Every message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool failed or refused.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The memory failed.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The storage that the log drains to failed. What had not been drained stays in the pool.
    #[error("{doing}: {source}; what was not drained is still in the pool: mend it and drain again")]
    Target {
        /// What was tried, and where.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried, and where.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The log is full and nothing could be drained to make room: the record was not appended, and nothing is lost.
    #[error("log {name:?} is full and cannot be drained: {why}")]
    Stuck {
        /// Its name.
        name: String,
        /// Why not.
        why: Box<Error>,
    },
    /// Records in a file are not what was drained.
    #[error(
        "segment {segment} of log {name:?} is damaged at byte {at:#x}: restore it from a backup, or truncate behind"
    )]
    Damaged {
        /// The log.
        name: String,
        /// The position that the file is named by.
        segment: u64,
        /// Where in the file.
        at: u64,
    },
    /// Records that had been drained are in no file.
    #[error(
        "position {position} of log {name:?} is in no file of {place}: restore its files from a backup, or truncate behind"
    )]
    Missing {
        /// The log.
        name: String,
        /// Where they were.
        position: u64,
        /// Where its files are.
        place: String,
    },
    /// A segment belongs to another log, or is none.
    #[error("segment {segment} is not one of log {name:?} ({what}): drain to a folder of the log's own")]
    Foreign {
        /// The log.
        name: String,
        /// The position that the file is named by.
        segment: u64,
        /// What is not right.
        what: &'static str,
    },
    /// A request exceeds a limit, or makes no sense.
    #[error("{0}")]
    Limit(String),
    /// A writer died between reserving a place and filling it.
    #[error("a writer of log {0:?} ended before its record was whole: open the log again")]
    Broken(String),
}

impl Error {
    /// Whether it says that there is no room, in the pool or on its host.
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
