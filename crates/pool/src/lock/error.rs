//! Why a pool cannot be locked.

use std::io;
use std::path::PathBuf;

/// Why a file cannot be locked as a pool. Each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// The operation, and its file.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The path names something that cannot hold a pool.
    #[error("{0} is neither a file nor a device, so it holds no pool: name the pool's file")]
    NotAPool(PathBuf),
    /// Another user owns the file, or may write to it.
    #[error("{0}")]
    Untrusted(String),
}

impl LockError {
    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}
