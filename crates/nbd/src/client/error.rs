//! What can go wrong with a server, and what its error numbers mean here.

use std::io;

use ferrite_memory::Error;

use super::flight::Piece;
use crate::consts::command;
use crate::errno::{ENOSPC, ENOTSUP, EPERM};

/// Why an export cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URI says nothing that can be connected to.
    #[error("{uri}: {why}; write nbd+unix:///NAME?socket=PATH or nbd://HOST[:PORT]/NAME")]
    Uri {
        /// As it was given.
        uri: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody answers there, or nobody who goes on answering.
    #[error("{uri}: cannot connect: {source}")]
    Unreachable {
        /// Where.
        uri: String,
        /// What the system said.
        source: io::Error,
    },
    /// What answers does not keep to the protocol.
    #[error("{uri}: what answers there does not speak NBD as it should: {why}")]
    NotNbd {
        /// Where.
        uri: String,
        /// What it said.
        why: &'static str,
    },
    /// The server refuses the export.
    #[error("{uri}: the server refuses it: {why}")]
    Refused {
        /// Where.
        uri: String,
        /// The server's reason.
        why: String,
    },
    /// Its size is no whole number of blocks.
    #[error(
        "{uri} has {size} bytes, and a disk whole blocks: behind {} of {block_bytes} bytes there are {} more, which would \
         be left out; have whole blocks served: `truncate --size=%{block_bytes}` fills the last one of a file up",
        size / u64::from(*block_bytes), size % u64::from(*block_bytes)
    )]
    PartBlock {
        /// Where.
        uri: String,
        /// Bytes that it has.
        size: u64,
        /// Bytes of a block.
        block_bytes: u32,
    },
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Uri { .. } | ConnectError::PartBlock { .. } => io::ErrorKind::InvalidInput,
            ConnectError::Unreachable { source, .. } => source.kind(),
            ConnectError::NotNbd { .. } => io::ErrorKind::InvalidData,
            ConnectError::Refused { .. } => io::ErrorKind::ConnectionRefused,
        };
        Self::Io { what: error.to_string(), source: kind.into() }
    }
}

/// An error that a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Number of the protocol, which is Linux's.
    pub errno: u32,
    /// For people; may be empty.
    pub text: String,
    /// Where on the disk.
    pub at: Option<u64>,
}

/// The server's answer to `piece`, in our words.
pub(super) fn failed(piece: &Piece, uri: &str, failure: &Failure) -> Error {
    let doing = match piece.command {
        command::READ => "reading",
        command::WRITE => "writing",
        command::FLUSH => "flushing",
        command::TRIM => "trimming",
        command::WRITE_ZEROES => "zeroing",
        _ => "asking for the extents of",
    };
    let at = failure.at.unwrap_or(piece.span.at);
    let said = if failure.text.is_empty() { String::new() } else { format!(" (the server says: {})", failure.text) };
    let what = format!("{doing} {} bytes at {at} of {uri}{said}", piece.span.len);
    match failure.errno {
        EPERM => Error::ReadOnly,
        ENOSPC => Error::NoSpace(what),
        ENOTSUP => Error::Unsupported(what),
        errno => Error::Io { what, source: io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(libc::EIO)) },
    }
}
