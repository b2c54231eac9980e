//! Errors of a connection to a server, and the meaning of the server's error numbers.

use std::io;

use ferrite_memory::Error;

use super::flight::Piece;
use crate::consts::command;
use crate::errno::{ENOSPC, ENOTSUP, EPERM};

/// The reason why an export cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URI does not name an address.
    #[error("{uri}: {why}; write nbd+unix:///NAME?socket=PATH or nbd://HOST[:PORT]/NAME")]
    Uri {
        /// The URI that the caller passed.
        uri: String,
        /// The defect of the URI.
        why: &'static str,
    },
    /// No server answers at the address, or the server stopped answering.
    #[error("{uri}: cannot connect: {source}")]
    Unreachable {
        /// The URI of the export.
        uri: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server does not follow the protocol.
    #[error("{uri}: what answers there does not speak NBD as it should: {why}")]
    NotNbd {
        /// The URI of the export.
        uri: String,
        /// The violation of the protocol.
        why: &'static str,
    },
    /// The server refuses the export.
    #[error("{uri}: the server refuses it: {why}")]
    Refused {
        /// The URI of the export.
        uri: String,
        /// The server's reason.
        why: String,
    },
    /// The export's size is not a whole number of blocks.
    #[error(
        "{uri} has {size} bytes, and a disk whole blocks: behind {} of {block_bytes} bytes there are {} more, which would \
         be left out; have whole blocks served: `truncate --size=%{block_bytes}` fills the last one of a file up",
        size / u64::from(*block_bytes), size % u64::from(*block_bytes)
    )]
    PartBlock {
        /// The URI of the export.
        uri: String,
        /// Size of the export in bytes.
        size: u64,
        /// Size of a block in bytes.
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

/// An error that a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Error number of the protocol, equal to Linux's number.
    pub errno: u32,
    /// Text for people; may be empty.
    pub text: String,
    /// Offset on the disk.
    pub at: Option<u64>,
}

/// Converts the server's error for `piece` into an [`Error`].
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
