//! The frames on the control socket, as pure functions from bytes and to bytes.
//!
//! [`Message::Hello`] and [`Message::Refused`] have the same shape in all versions of the protocol, so that each side can
//! tell a peer of another version which version it speaks.

use ferrite_pool::{Failure, FailureKind, Progress};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::rights::FDS_MAX;
use crate::{Error, NamespaceView, Result};

/// Version of the protocol; both sides must speak the same.
pub const PROTOCOL: u32 = 3;
/// Longest frame without its length, in bytes.
pub const FRAME_MAX_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// First frame of either side.
    Hello {
        /// The version it speaks.
        protocol: u32,
        /// Its name and release, for messages to people.
        program: String,
        /// Device and inode of the file that it has locked, where it is the owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<(u64, u64)>,
    },
    /// Instead of the owner's hello: it will not serve.
    Refused {
        /// Why not.
        why: String,
    },
    /// A client asks a service for something.
    Call {
        /// The name of the service.
        service: String,
        /// The request, in the words of the service.
        request: Value,
        /// How many descriptors ride on this frame.
        fds: usize,
        /// What the client sees of the places that the request names, if it names some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<NamespaceView>,
    },
    /// The owner is at work on the call.
    Progress(Progress),
    /// The call succeeded.
    Reply {
        /// Its result.
        value: Value,
        /// How many descriptors ride on this frame.
        fds: usize,
    },
    /// The call failed.
    Failed(Failure),
}

/// What a decoder made of the bytes it has.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// The frame needs at least this many bytes more; never more than are left of it.
    More(usize),
    /// The bytes begin with this frame.
    Whole {
        /// The frame.
        message: Message,
        /// Its length in bytes, with the length itself.
        len: usize,
    },
}

impl Message {
    /// A client's hello.
    pub fn hello() -> Self {
        Self::hello_of(None)
    }

    /// The hello of the owner of `pool`, a file's device and inode; of a client where there is none.
    pub fn hello_of(pool: Option<(u64, u64)>) -> Self {
        Self::Hello { protocol: PROTOCOL, program: concat!("ferrite ", env!("CARGO_PKG_VERSION")).into(), pool }
    }
}

/// The bytes of a frame.
///
/// # Errors
/// [`Error::Failed`] if it would be longer than [`FRAME_MAX_BYTES`].
pub fn encode(message: &Message) -> Result<Vec<u8>> {
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

/// What `bytes` begin with.
///
/// # Errors
/// [`Error::Protocol`] on what can never become a frame, as soon as that is known.
pub fn decode(bytes: &[u8]) -> Result<Decoded> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(Decoded::More(LENGTH_BYTES - bytes.len()));
    };
    let len = u32::from_le_bytes(*length) as usize;
    if len == 0 || len > FRAME_MAX_BYTES {
        return Err(Error::Protocol(format!("a frame of {len} bytes")));
    }
    if rest.len() < len {
        return Ok(Decoded::More(len - rest.len()));
    }
    let message = serde_json::from_slice(&rest[..len]).map_err(|e| Error::Protocol(format!("a frame that is {e}")))?;
    Ok(Decoded::Whole { message, len: LENGTH_BYTES + len })
}
