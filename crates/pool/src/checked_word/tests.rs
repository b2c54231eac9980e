//! A word that checks itself, and words that do not.

use super::*;

#[test]
fn a_sealed_number_is_read_back_and_any_changed_bit_is_noticed() {
    for number in [0, 1, 77, 1 << 40, NUMBER_MAX] {
        let word = seal(9, number);
        assert_eq!(unseal(9, word), Some(number));
        assert!((0..64).all(|bit| unseal(9, word ^ 1 << bit).is_none()), "{number}");
    }
}

#[test]
fn zeroed_memory_and_another_salt_do_not_check() {
    assert_eq!(unseal(9, 0), None);
    assert_eq!(unseal(10, seal(9, 5)), None);
}

#[test]
fn the_check_is_the_crc_32_of_the_number() {
    for (salt, number) in [(0, 0), (9, 1), (u32::MAX, NUMBER_MAX), (0xdead_beef, 0x1_2345_6789_abcd)] {
        let mut hasher = crc32fast::Hasher::new_with_initial(salt);
        hasher.update(&u64::to_le_bytes(number));
        assert_eq!(seal(salt, number) >> 52, u64::from(hasher.finalize() & 0xfff), "{salt:#x}, {number:#x}");
    }
}
