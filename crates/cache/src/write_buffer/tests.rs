//! Slot headers (WB1).

use super::*;

fn header() -> SlotHeader {
    let word = PageWord { key: BlockKey::new(2, 9), live: true, dirty: true, lost: false, hits: 1 };
    SlotHeader { sum: 5, sequence: 6, word, epoch: 7, is_clean: false, is_dead: false }
}

fn encoded(header: &SlotHeader) -> [u8; 64] {
    let mut media = SlotMedia::new_zeroed();
    (media.sum, media.sequence) = (header.sum.into(), header.sequence.into());
    (media.word, media.epoch) = (header.word.encode(1).into(), header.epoch.into());
    media.check = media.check(1).into();
    zerocopy::transmute!(media)
}

#[test]
fn wb1_header_with_a_flipped_bit_does_not_count() {
    let bytes = encoded(&header());
    assert_eq!(decode_slot_header(1, &bytes), Some(header()));
    for bit in 0..32 * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_slot_header(1, &flipped), None, "bit {bit}");
    }
    assert_eq!(decode_slot_header(2, &bytes), None, "the salt of another cache");
}

/// A later epoch would not fit the table of a LEB.
#[test]
fn wb4_header_with_an_epoch_that_is_too_high_is_none() {
    let highest = SlotHeader { epoch: EPOCH_MAX, ..header() };
    assert_eq!(decode_slot_header(1, &encoded(&highest)), Some(highest));
    assert_eq!(decode_slot_header(1, &encoded(&SlotHeader { epoch: EPOCH_MAX + 1, ..header() })), None);
}

#[test]
fn marks_of_another_filling_do_not_count() {
    let mut bytes = encoded(&header());
    bytes[56..].copy_from_slice(&6_u64.to_le_bytes());
    assert!(!decode_slot_header(1, &bytes).expect("it verifies").is_dead);
    bytes[56..].copy_from_slice(&7_u64.to_le_bytes());
    assert!(decode_slot_header(1, &bytes).expect("it verifies").is_dead);
}
