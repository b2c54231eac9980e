//! Frames on the owner's control socket.

use ferrite_owner::wire::{DecodedFrame, FRAME_MAX_BYTES, WireMessage, decode, encode};
use ferrite_pool::{Failure, Progress};
use serde_json::json;

pub fn target(data: &[u8]) {
    match decode(data) {
        Ok(DecodedFrame::Whole { message, len }) => {
            assert!(len <= data.len(), "a frame longer than what was received");
            if let Ok(frame) = encode(&message) {
                let again = decode(&frame);
                assert!(
                    matches!(again, Ok(DecodedFrame::Whole { .. })),
                    "what was understood cannot be said: {message:?}"
                );
            }
        }
        Ok(DecodedFrame::More(missing)) => {
            assert!(missing > 0 && missing <= FRAME_MAX_BYTES, "a wait for {missing} bytes");
        }
        Err(_) => {}
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let messages = [
        WireMessage::hello(),
        WireMessage::Refused { why: "stopping".into() },
        WireMessage::Call {
            service: "disk".into(),
            request: json!({ "do": "create", "name": "disk0", "size": 1 << 20 }),
            fds: 1,
            view: None,
        },
        WireMessage::Failed(Failure::busy("in use")),
        WireMessage::Progress(Progress { done: 1, total: 2, what: "backup".into() }),
        WireMessage::Reply { value: json!([1, 2.5, null, "x"]), fds: 0 },
    ];
    messages.iter().filter_map(|message| encode(message).ok()).collect()
}
