//! What can go wrong with objects.

use ferrite_pool::{Error as PoolError, LockError};

/// Result of an operation on a store or an object.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with objects. Every message says what, where, and what to do.
///
/// Any change of an object gives [`ferrite_pool::Error::Medium`] (in [`Error::Pool`], as all of the pool's) where its
/// persist fails: whether the change is there is known when the object is opened again. Until then it takes no more,
/// and gives [`ferrite_pool::Error::Poisoned`]; where this process owns the pool, until that is opened again. An object
/// that another process lends gives [`ferrite_pool::Error::Revoked`] once that has ended or has asked for it back. A
/// change that is refused by either of these is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool refused or failed: no such tag, in use, full, poisoned.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The process that owns the pool cannot be reached.
    #[error(transparent)]
    Owner(ferrite_owner::Error),
    /// Bytes of an object are not what was stored.
    #[error(
        "object {name:?} is damaged: {what} at byte {at:#x} of the pool; open it to salvage what is left, or restore a \
         backup"
    )]
    Damaged {
        /// The object.
        name: String,
        /// What of it.
        what: String,
        /// Where that lies in the pool.
        at: u64,
    },
    /// The object is of another type.
    #[error("{name:?} is {found}, not {wanted}: open it as what it is, or choose another name")]
    WrongType {
        /// The object.
        name: String,
        /// What it is.
        found: String,
        /// What it was opened as.
        wanted: String,
    },
    /// Something is larger than it may be.
    #[error("{what} of {bytes} bytes is too large: {bytes_max} at most")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest that fits.
        bytes_max: u64,
    },
    /// A value was given, or asked for, in another length than it has.
    #[error("the value has {value_bytes} bytes, not {bytes}, and its length never changes")]
    WrongLength {
        /// The length given.
        bytes: u64,
        /// Its own.
        value_bytes: u64,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(String),
}

impl From<ferrite_owner::Error> for Error {
    fn from(error: ferrite_owner::Error) -> Self {
        match error {
            ferrite_owner::Error::Pool(error) => Self::Pool(error),
            ferrite_owner::Error::Failed(failure) => Self::Pool(PoolError::Owner(failure)),
            other => Self::Owner(other),
        }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        Self::Owner(error.into())
    }
}

impl From<ferrite_memory::Error> for Error {
    fn from(error: ferrite_memory::Error) -> Self {
        Self::Pool(error.into())
    }
}
