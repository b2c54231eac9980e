//! A word that checks itself: a number that is replaced by one atomic 8-byte store and still has a checksum.
//!
//! ```text
//! bits 0..52 number   52..64 check: low bits of the CRC-32 of the number, started from a salt
//! ```

/// Largest number a word holds: 2^52 - 1, a million a second for 140 years.
pub const NUMBER_MAX: u64 = (1 << 52) - 1;

/// What a pool's words and records start their checksums from.
pub(crate) fn salt(uuid: &[u8; 16]) -> u32 {
    u32::from_le_bytes(uuid[..4].try_into().expect("four bytes"))
}

/// The word for `number`.
pub fn seal(salt: u32, number: u64) -> u64 {
    assert!(number <= NUMBER_MAX, "{number} does not fit a sealed word");
    number | check(salt, number) << 52
}

/// The number in `word`; `None` where it does not check.
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
