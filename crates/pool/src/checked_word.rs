//! A checked word: a number with a checksum in 8 bytes, so that one atomic store replaces both.
//!
//! ```text
//! bits 0..52 number   52..64 check: low bits of the CRC-32 of the number, started from a salt
//! ```

/// The largest number of a checked word: 2^52 - 1, a million a second for 140 years.
pub const NUMBER_MAX: u64 = (1 << 52) - 1;

/// Returns the start of the checksums of a pool's words and records.
pub(crate) fn salt(uuid: &[u8; 16]) -> u32 {
    u32::from_le_bytes(uuid[..4].try_into().expect("four bytes"))
}

/// Returns the checked word of `number`.
pub fn seal(salt: u32, number: u64) -> u64 {
    assert!(number <= NUMBER_MAX, "{number} does not fit a sealed word");
    number | check(salt, number) << 52
}

/// Returns the number in `word`, or `None` if its checksum is wrong.
pub fn unseal(salt: u32, word: u64) -> Option<u64> {
    let number = word & NUMBER_MAX;
    (word >> 52 == check(salt, number)).then_some(number)
}

fn check(salt: u32, number: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&number.to_le_bytes());
    u64::from(hasher.finalize() & 0xfff)
}

#[cfg(test)]
mod tests;
