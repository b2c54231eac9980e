//! CRC-32 as zlib has it, quick for what is short too.
//!
//! Records, slots and lines are mostly shorter than 128 bytes, where crc32fast goes by tables, byte by byte at the end:
//! 40 ns beside a fence of 100. Those are folded by carry-less multiplication as the longer ones are.

#[cfg(target_arch = "x86_64")]
#[path = "crc/short.rs"]
mod short;

/// Returns the CRC-32 of `bytes`, started with `initial`: the CRC of earlier bytes, or a salt.
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
mod tests;
