//! The plugin's decoding of QEMU's numbers.

#[path = "../../../plugin/src/access_meaning.rs"]
mod how;

use how::{AccessMeaning, MeaningBits};

/// Decodes a number as QEMU packs it: the size in `size_bits` bits from bit `size_at` on, and from bit 16 on whether
/// the access reads and writes.
fn packed(size_at: u32, size_bits: u32) -> impl Fn(u32) -> AccessMeaning {
    move |how| AccessMeaning { is_write: how >> 17 & 1 != 0, size_shift: how >> size_at & ((1 << size_bits) - 1) }
}

#[test]
fn where_the_bits_are_is_found() {
    for (size_at, size_bits) in [(4, 2), (4, 3), (5, 3), (0, 3)] {
        let ask = packed(size_at, size_bits);
        let bits = MeaningBits::asked(&ask).expect("it is a matter of bits");
        assert!((0..1 << 18).all(|how| bits.of(how) == ask(how)));
    }
}

#[test]
fn what_is_no_matter_of_bits_is_told_as_such() {
    let packed = packed(4, 3);
    let is_found =
        |change: fn(u32, AccessMeaning) -> AccessMeaning| MeaningBits::asked(|how| change(how, packed(how))).is_some();
    assert!(is_found(|_, made| made));
    assert!(!is_found(|_, made| AccessMeaning { is_write: !made.is_write, ..made }));
    assert!(!is_found(|how, made| AccessMeaning { is_write: made.is_write && how & 1 == 0, ..made }));
    assert!(!is_found(|_, made| AccessMeaning { size_shift: made.size_shift * 2, ..made }));
    assert!(!is_found(|_, made| AccessMeaning { size_shift: made.size_shift + 1, ..made }));
    assert!(!is_found(|how, made| AccessMeaning { size_shift: made.size_shift ^ how >> 31, ..made }));
}
