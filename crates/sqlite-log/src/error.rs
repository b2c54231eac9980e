//! What can go wrong with a database's log.

use std::io;

use ferrite_pool::{Failure, FailureKind, LockError};

/// Result of an operation on a database's log.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a database's log. Every message says what, where, and what to do.
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
        /// What was tried, and where.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A log could not be copied to a file.
    #[error("{0}; what was not drained is still in the pool: mend it and drain again")]
    Undrained(#[source] ferrite_pool::Error),
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried, and where.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else uses a database, or something of it is where it must not be.
    #[error("{0}")]
    Refused(String),
    /// There is no room in the pool, or on its host, as its owner says.
    #[error("{0}")]
    Full(String),
    /// The pool's owner could not be reached, or ended.
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
    /// Whether it says that there is no room, in the pool or on its host.
    pub fn is_want_of_space(&self) -> bool {
        match self {
            Self::Pool(error) | Self::Undrained(error) => error.is_want_of_space(),
            Self::Medium(error) => matches!(error, ferrite_memory::Error::NoSpace(_)),
            Self::Full(_) => true,
            _ => false,
        }
    }

    /// The system refused `doing` to a file other than a target of draining.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    pub(crate) fn target(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Target { doing: doing.into(), source }
    }
}
