//! The words of pages and places.

use super::*;

fn word() -> PageWord {
    PageWord { key: BlockKey::new(63, (1 << 36) - 1), live: true, dirty: true, lost: false, hits: 3 }
}

#[test]
fn word_keeps_each_field() {
    for flags in 0..8 {
        let (live, dirty, lost) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        let word = PageWord { live, dirty, lost, hits: flags % 4, ..word() };
        assert_eq!(PageWord::decode(9, word.encode(9)), Some(word));
    }
}

#[test]
fn flipped_bit_of_a_word_is_noticed() {
    let encoded = word().encode(9);
    assert!((0..64).all(|bit| PageWord::decode(9, encoded ^ 1 << bit).is_none()));
    assert_eq!(PageWord::decode(8, encoded), None, "the salt of another cache");
}

#[test]
fn places_keep_both_copies() {
    let (one, other) = (LebPlace { ssd: 14, leb: (1 << 22) - 1 }, LebPlace { ssd: 0, leb: 1 });
    for places in [[Some(one), Some(other)], [Some(one), None], [None, None]] {
        assert_eq!(decode_places(9, encode_places(9, places)), Some(places));
    }
}
