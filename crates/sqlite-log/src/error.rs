//! Errors of a database's log.

use std::io;

use ferrite_pool::{Failure, FailureKind, LockError};

/// Result of an operation on a database's log.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a database's log. Every message says what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool failed or refused.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The memory failed.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// A file that the log is given back to failed. The log is still in the pool.
    #[error("{doing}: {source}; what was not drained is still in the pool: mend it and drain again")]
    Target {
        /// The action that failed, and its place.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A log could not be copied to a file.
    #[error("{0}; what was not drained is still in the pool: mend it and drain again")]
    Undrained(#[source] ferrite_pool::Error),
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Io {
        /// The action that failed, and its place.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process uses the database, or a file of the database is in a place where it must not be.
    #[error("{0}")]
    Refused(String),
    /// The pool or its host is full, as the owner of the pool reports.
    #[error("{0}")]
    Full(String),
    /// The owner of the pool could not be reached, or ended.
    #[error(transparent)]
    Owner(#[from] ferrite_owner::Error),
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        Self::Owner(error.into())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Full => Self::Full(failure.message),
            _ => Self::Refused(failure.message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Pool(error) => error.into(),
            Error::Medium(error) => error.into(),
            Error::Refused(why) => Self::refused(why),
            Error::Full(why) => Self::new(FailureKind::Full, why),
            other => Self::failed(other),
        }
    }
}

impl Error {
    /// Returns true if the error says that the pool or its host is full.
    pub fn is_want_of_space(&self) -> bool {
        match self {
            Self::Pool(error) | Self::Undrained(error) => error.is_want_of_space(),
            Self::Medium(error) => matches!(error, ferrite_memory::Error::NoSpace(_)),
            Self::Full(_) => true,
            _ => false,
        }
    }

    /// Makes the error of the action `doing` on a file that is not a target of draining.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    pub(crate) fn target(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Target { doing: doing.into(), source }
    }
}
