//! The frames on the control socket, as pure functions from bytes and to bytes.
//!
//! [`WireMessage::Hello`] and [`WireMessage::Refused`] have the same shape in all versions of the protocol, so that
//! each side can name its version to a peer of another version.

use ferrite_pool::{Failure, FailureKind, Progress};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::passed_fds::FDS_MAX;
use crate::{Error, NamespaceView, Result};

/// Version of the protocol; both sides must speak the same.
pub const PROTOCOL: u32 = 3;
/// The longest frame without its length, in bytes.
pub const FRAME_MAX_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireMessage {
    /// The first frame of either side.
    Hello {
        /// The version of the sender.
        protocol: u32,
        /// The sender's name and release, for messages to people.
        program: String,
        /// Device and inode of the file that the owner has locked; only an owner sends them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<(u64, u64)>,
    },
    /// Sent in the place of the owner's hello if the owner does not serve the client.
    Refused {
        /// The reason.
        why: String,
    },
    /// A client asks a service for something.
    Call {
        /// The name of the service.
        service: String,
        /// The request, in the words of the service.
        request: Value,
        /// The number of descriptors that come with this frame.
        fds: usize,
        /// What the client sees of the places that the request names, if it names some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<NamespaceView>,
    },
    /// The owner is at work on the call.
    Progress(Progress),
    /// The call succeeded.
    Reply {
        /// The result.
        value: Value,
        /// The number of descriptors that come with this frame.
        fds: usize,
    },
    /// The call failed.
    Failed(Failure),
}

/// The result of decoding a part of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum DecodedFrame {
    /// The frame needs at least this many more bytes, and has no fewer left.
    More(usize),
    /// The bytes begin with this frame.
    Whole {
        /// The frame.
        message: WireMessage,
        /// The length in bytes, with the four bytes of the length itself.
        len: usize,
    },
}

impl WireMessage {
    /// Returns a client's hello.
    pub fn hello() -> Self {
        Self::hello_of(None)
    }

    /// Returns the hello of the owner of `pool`, the device and the inode of its file; a client's hello without `pool`.
    pub fn hello_of(pool: Option<(u64, u64)>) -> Self {
        Self::Hello { protocol: PROTOCOL, program: concat!("ferrite ", env!("CARGO_PKG_VERSION")).into(), pool }
    }
}

/// Returns the bytes of a frame.
///
/// # Errors
/// [`Error::Failed`] if it would be longer than [`FRAME_MAX_BYTES`].
pub fn encode(message: &WireMessage) -> Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(|e| Failure::failed(format!("cannot be sent: {e}")))?;
    let len = bytes.len() - LENGTH_BYTES;
    if len > FRAME_MAX_BYTES {
        let why =
            format!("{len} bytes are too many for one message of at most {FRAME_MAX_BYTES}: ask for less at once");
        return Err(Failure::new(FailureKind::Limit, why).into());
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(bytes)
}

/// Decodes the frame at the start of `bytes`.
///
/// # Errors
/// [`Error::Protocol`] as soon as the bytes cannot become a frame.
pub fn decode(bytes: &[u8]) -> Result<DecodedFrame> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(DecodedFrame::More(LENGTH_BYTES - bytes.len()));
    };
    let len = u32::from_le_bytes(*length) as usize;
    if len == 0 || len > FRAME_MAX_BYTES {
        return Err(Error::Protocol(format!("a frame of {len} bytes")));
    }
    if rest.len() < len {
        return Ok(DecodedFrame::More(len - rest.len()));
    }
    let message = serde_json::from_slice(&rest[..len]).map_err(|e| Error::Protocol(format!("a frame that is {e}")))?;
    Ok(DecodedFrame::Whole { message, len: LENGTH_BYTES + len })
}
