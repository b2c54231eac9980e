//! CRC-32 as zlib has it, quick for what is short too.
//!
//! Records, slots and lines are mostly shorter than 128 bytes, where crc32fast goes by tables, byte by byte at the end:
//! 40 ns beside a fence of 100. Those are folded by carry-less multiplication as the longer ones are.

#[cfg(target_arch = "x86_64")]
#[path = "crc/short.rs"]
mod short;

/// The CRC-32 of `bytes`, begun with `initial`: that of what came before, or a salt.
#[inline]
pub fn crc32(initial: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(sum) = short::sum(initial, bytes) {
        return sum;
    }
    by_table(initial, bytes)
}

/// The CRC-32 of `head`, `words` and `tail`, little-endian one behind the other: as [`crc32`] of all that in one place,
/// without reading there what was stored a moment ago.
#[inline]
pub fn crc32_of_words<const WORDS: usize>(initial: u32, head: (u32, u64), words: [u64; WORDS], tail: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(sum) = short::sum_of_words(initial, head, words, tail) {
        return sum;
    }
    let before = by_table(by_table(initial, &head.0.to_le_bytes()), &head.1.to_le_bytes());
    let before = words.iter().fold(before, |sum, word| by_table(sum, &word.to_le_bytes()));
    crc32(before, tail)
}

#[inline(never)]
fn by_table(initial: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(initial);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum on the medium is the one that everybody computes, or a pool would be damaged on another processor.
    #[test]
    fn the_sum_is_that_of_zlib() {
        let bytes: Vec<u8> = (0..600_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for initial in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
            for len in 0..300 {
                for at in [0, 1, 7, 64, 299] {
                    let bytes = &bytes[at..at + len];
                    assert_eq!(crc32(initial, bytes), by_table(initial, bytes), "{len} bytes from {at}, {initial:#x}");
                }
            }
        }
        for len in 0..300 {
            let (head, words) = ((0x0403_0201, 0x0c0b_0a09_0807_0605), [0x1413_1211_100f_0e0d]);
            let all = [&(1..21).collect::<Vec<u8>>()[..], &bytes[..len]].concat();
            assert_eq!(crc32_of_words(7, head, words, &bytes[..len]), by_table(7, &all), "{len} bytes behind words");
        }
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(0, b"123456789 and 16 more bytes"), crc32(crc32(0, b"123456789"), b" and 16 more bytes"));
    }
}
