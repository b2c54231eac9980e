//! Why a disk could not become a node, or a node could not be taken away.

use std::io;
use std::path::PathBuf;

/// Result of attaching or detaching.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a disk could not become a node, or a node could not be taken away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine or user cannot attach anything.
    #[error("cannot make a /dev node: {0}; use the disk over NBD")]
    Missing(String),
    /// The name cannot be a file's name.
    #[error("`{0}` cannot name a node, for its `/`, control character or leading dot: use the disk over NBD")]
    Name(String),
    /// Another process serves an attached disk of this name.
    #[error("{name} is attached already, by {who}: detach it there, or give another name")]
    Held {
        /// The disk's name.
        name: String,
        /// Who serves it.
        who: String,
    },
    /// The stable name under `/dev` belongs to something else.
    #[error("{link} is taken by {by}: detach that, or use this disk over NBD")]
    LinkTaken {
        /// The link that was to be made.
        link: PathBuf,
        /// What it is now.
        by: String,
    },
    /// The node is in use, so it stays.
    #[error("{device} is in use by {}: stop that first", who.join(", "))]
    Busy {
        /// The node.
        device: PathBuf,
        /// Each holder in words.
        who: Vec<String>,
    },
    /// The node is gone, but the disk could not make its last writes durable.
    #[error("detached, but the disk's flush failed: {0}")]
    Flush(ferrite_memory::Error),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and to what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Tells `source` with what was being done.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
