//! The errors of objects.

use ferrite_pool::{Error as PoolError, LockError};

/// The result of an operation on a store or an object.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an object. Every message says what failed, where, and what to do.
///
/// Any change of an object returns [`ferrite_pool::Error::Medium`] (in [`Error::Pool`], like all errors of the pool) if
/// its persist fails; the next opening shows whether the change is there. Until then the object refuses changes with
/// [`ferrite_pool::Error::Poisoned`]; if this process owns the pool, until the pool is opened again. An object that
/// another process lends returns [`ferrite_pool::Error::Revoked`] after that process has ended or revoked it. A change
/// that is refused by one of these is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool reported an error: the tag is missing or in use, the pool is full or poisoned.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The process that owns the pool cannot be reached.
    #[error(transparent)]
    Owner(ferrite_owner::Error),
    /// Bytes of an object differ from the stored ones.
    #[error(
        "object {name:?} is damaged: {what} at byte {at:#x} of the pool; open it to salvage what is left, or restore a \
         backup"
    )]
    Damaged {
        /// The name of the object.
        name: String,
        /// The damaged part.
        what: String,
        /// The offset in the pool, in bytes.
        at: u64,
    },
    /// The object has another type.
    #[error("{name:?} is {found}, not {wanted}: open it as what it is, or choose another name")]
    WrongType {
        /// The name of the object.
        name: String,
        /// The type it has.
        found: String,
        /// The type with which it was opened.
        wanted: String,
    },
    /// A name, value, entry or change is too large.
    #[error("{what} of {bytes} bytes is too large: {bytes_max} at most")]
    TooLarge {
        /// The kind of item.
        what: &'static str,
        /// The size in bytes.
        bytes: u64,
        /// The largest size in bytes.
        bytes_max: u64,
    },
    /// A value has another length than the given one.
    #[error("the value has {value_bytes} bytes, not {bytes}, and its length never changes")]
    WrongLength {
        /// The given length in bytes.
        bytes: u64,
        /// The length of the value in bytes.
        value_bytes: u64,
    },
    /// The request is invalid.
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
