//! The errors of a guest.

use ferrite_pool::{Failure, FailureKind};

/// Result of an operation on a guest.
pub type Result<T> = std::result::Result<T, GuestError>;

/// An error of a guest. Each message names the object and the way out.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The pool.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The disk or the pool's memory.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The request makes no sense for this guest or this disk.
    #[error("{0}")]
    Refused(String),
    /// Bytes in the pool are damaged.
    #[error("{0}")]
    Damaged(String),
}

impl GuestError {
    /// Returns true if the pool or its host lacks space.
    pub(crate) fn is_want_of_space(&self) -> bool {
        matches!(self, Self::Pool(error) if error.is_want_of_space())
    }
}

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Pool(error) => error.into(),
            GuestError::Medium(error) => error.into(),
            GuestError::Refused(what) => Self::refused(what),
            GuestError::Damaged(what) => Self::new(FailureKind::Damaged, what),
        }
    }
}

impl From<GuestError> for ferrite_pool::Error {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Pool(error) => error,
            GuestError::Medium(error) => Self::Medium(error),
            GuestError::Refused(why) => Self::Limit(why),
            GuestError::Damaged(what) => Self::Owner(Failure::new(FailureKind::Damaged, what)),
        }
    }
}

impl From<GuestError> for ferrite_memory::Error {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Medium(error) | GuestError::Pool(ferrite_pool::Error::Medium(error)) => error,
            other => Self::io("the guest", std::io::Error::other(other.to_string())),
        }
    }
}
