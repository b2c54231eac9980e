//! Errors between a pool's owner and its clients.

use std::io;
use std::path::PathBuf;

use ferrite_pool::{Failure, FailureKind, Holder, LockError};
use serde_json::Value;

/// Result of claiming a pool or of talking to its owner.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of claiming a pool or of talking to its owner. Each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// The operation, and its object.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The pool cannot be locked, or is not trusted.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No process holds the pool.
    #[error("no process serves {0}: open it directly, or start `ferrite up`")]
    NoOwner(PathBuf),
    /// A process holds the pool, and takes no calls.
    #[error("{path} is {holder}, which takes no calls by this name: wait until it ends, or stop it")]
    Silent {
        /// The pool.
        path: PathBuf,
        /// The holder.
        holder: Holder,
    },
    /// The owner does not serve this process, or this process does not trust the owner.
    #[error("refused: {0}")]
    Refused(String),
    /// The two programs are of different versions.
    #[error(
        "the other side ({program}) speaks version {theirs} of the control protocol and this program version {ours}: \
         run the same release of ferrite on both sides"
    )]
    Version {
        /// The other side's name for itself.
        program: String,
        /// The version of the other side.
        theirs: u32,
        /// The version of this program.
        ours: u32,
    },
    /// The bytes on the socket are not this protocol.
    #[error("not the control protocol of ferrite: {0}; is it another program's socket?")]
    Protocol(String),
    /// The owner ended while it worked on a call.
    #[error(
        "the pool's owner ended before it answered; whether the call took effect is not known: look, then try again"
    )]
    Died,
    /// The other side was silent for too long.
    #[error("{0} took too long: it may be stopped or overloaded; try again")]
    Timeout(String),
    /// The call took effect, and the descriptors of the reply were lost on the way.
    #[error("the file descriptors of the owner's reply did not all come: this program may have too many open")]
    Lost {
        /// The reply, for a caller that has to undo the call.
        value: Box<Value>,
    },
    /// The owner worked on the call and reports a failure.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The pool that this process is to own cannot be opened.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The caller's progress function returned false.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Returns the kind of this error: the owner's, if the owner reports a failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Failed(failure) => failure.kind,
            Self::Pool(error) => error.kind(),
            Self::Cancelled => FailureKind::Cancelled,
            _ => FailureKind::Failed,
        }
    }

    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}
