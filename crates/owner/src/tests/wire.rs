//! The decoder against every prefix, every byte and every length.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wire::{DecodedFrame, FRAME_MAX_BYTES, WireMessage, decode, encode};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((".*", inner), 0..4).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

fn message() -> impl Strategy<Value = WireMessage> {
    prop_oneof![
        (any::<u32>(), ".*", any::<Option<(u64, u64)>>()).prop_map(|(protocol, program, pool)| WireMessage::Hello {
            protocol,
            program,
            pool
        }),
        ".*".prop_map(|why| WireMessage::Refused { why }),
        (".*", value(), any::<usize>()).prop_map(|(service, request, fds)| WireMessage::Call {
            service,
            request,
            fds,
            view: None
        }),
        (any::<u64>(), any::<u64>(), ".*").prop_map(|(done, total, what)| WireMessage::Progress(Progress {
            done,
            total,
            what
        })),
        (value(), any::<usize>()).prop_map(|(value, fds)| WireMessage::Reply { value, fds }),
        ".*".prop_map(|why| WireMessage::Failed(Failure::busy(why))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every message survives the wire, and no prefix of it is taken for a whole or asks past its end.
    #[test]
    fn what_is_encoded_is_decoded_and_no_prefix_is(message in message(), behind in vec(any::<u8>(), 0..8)) {
        let mut bytes = encode(&message).expect("short");
        let len = bytes.len();
        for have in 0..len {
            match decode(&bytes[..have]) {
                Ok(DecodedFrame::More(missing)) => prop_assert!(missing > 0 && have + missing <= len),
                other => prop_assert!(false, "{have} of {len} bytes: {other:?}"),
            }
        }
        bytes.extend(behind);
        prop_assert_eq!(decode(&bytes).expect("whole"), DecodedFrame::Whole { message, len });
    }

    /// Hostile bytes are refused or asked to go on, within the bound, and never more.
    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(DecodedFrame::More(missing)) = decode(&bytes) {
            prop_assert!(missing <= FRAME_MAX_BYTES);
        }
    }

    /// So is a frame with a byte changed.
    #[test]
    fn a_changed_byte_is_survived(message in message(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = encode(&message).expect("short");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        match decode(&bytes) {
            Ok(DecodedFrame::Whole { len, .. }) => prop_assert!(len <= bytes.len()),
            Ok(DecodedFrame::More(missing)) => prop_assert!(missing <= FRAME_MAX_BYTES),
            Err(error) => prop_assert!(matches!(error, Error::Protocol(_))),
        }
    }
}

#[test]
fn o4_a_length_out_of_bounds_is_refused_as_soon_as_it_is_known() {
    for len in [0, FRAME_MAX_BYTES as u32 + 1, u32::MAX] {
        assert!(matches!(decode(&len.to_le_bytes()), Err(Error::Protocol(_))), "{len}");
    }
    assert_eq!(
        decode(&(FRAME_MAX_BYTES as u32).to_le_bytes()).expect("the longest"),
        DecodedFrame::More(FRAME_MAX_BYTES)
    );
}

#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    let mut bytes = (FRAME_MAX_BYTES as u32).to_le_bytes().to_vec();
    bytes.resize(4 + FRAME_MAX_BYTES, b'[');
    assert!(matches!(decode(&bytes), Err(Error::Protocol(_))));
}
