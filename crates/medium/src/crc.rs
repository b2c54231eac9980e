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
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(0, b"123456789 and 16 more bytes"), crc32(crc32(0, b"123456789"), b" and 16 more bytes"));
    }
}
