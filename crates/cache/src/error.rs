//! The errors of a cache.

use ferrite_pool::{Failure, FailureKind};

/// Result of an operation on a cache.
pub type Result<T> = std::result::Result<T, CacheError>;

/// An error of a cache. Each message names the object and the way out.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The pool.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// A member or the pool's memory.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The request makes no sense for this cache.
    #[error("{0}")]
    Refused(String),
    /// The cache, its SSD or its disk has no such name or number.
    #[error("{0}")]
    NotFound(String),
    /// Bytes in the pool are damaged.
    #[error("{0}")]
    Damaged(String),
    /// The cache or a member of it is in use.
    #[error("{0}")]
    Busy(String),
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Pool(error) => error.into(),
            CacheError::Medium(error) => error.into(),
            CacheError::Refused(what) => Self::refused(what),
            CacheError::NotFound(what) => Self::not_found(what),
            CacheError::Damaged(what) => Self::new(FailureKind::Damaged, what),
            CacheError::Busy(what) => Self::busy(what),
        }
    }
}
