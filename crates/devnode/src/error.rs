//! Errors of attaching a disk as a node and of detaching a node.

use std::io;
use std::path::PathBuf;

/// Result of attaching or detaching.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a disk could not become a node, or why a node could not be detached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine or user cannot attach any disk.
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
        /// The server that holds the name.
        who: String,
    },
    /// The stable name under `/dev` belongs to something else.
    #[error("{link} is taken by {by}: detach that, or use this disk over NBD")]
    LinkTaken {
        /// The link that was requested.
        link: PathBuf,
        /// The present use of the link.
        by: String,
    },
    /// The node is in use, so it stays attached.
    #[error("{device} is in use by {}: stop that first", who.join(", "))]
    Busy {
        /// The node.
        device: PathBuf,
        /// The holders of the node, one description each.
        who: Vec<String>,
    },
    /// The path of a file is in use for something else.
    #[error("{path} {why}: name a file that does not exist, or an empty one")]
    FileTaken {
        /// The path that was requested.
        path: PathBuf,
        /// The present use of the path.
        why: String,
    },
    /// The file is gone, but the disk could not store some of the bytes that programs had written.
    #[error("detached, but {bytes} bytes that programs had written could not be stored ({why}) and are lost")]
    Lost {
        /// The number of bytes.
        bytes: u64,
        /// The error of the last write that failed.
        why: io::Error,
    },
    /// The node is gone, but the disk could not make its last writes durable.
    #[error("detached, but the disk's flush failed: {0}")]
    Flush(ferrite_memory::Error),
    /// The operating system refused a call.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed, and its object.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that wraps a system error with the operation that failed.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
