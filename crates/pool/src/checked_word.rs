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
#[inline]
pub fn seal(salt: u32, number: u64) -> u64 {
    assert!(number <= NUMBER_MAX, "{number} does not fit a sealed word");
    number | check(salt, number) << 52
}

/// Returns the number in `word`, or `None` if its checksum is wrong.
#[inline]
pub fn unseal(salt: u32, word: u64) -> Option<u64> {
    let number = word & NUMBER_MAX;
    (word >> 52 == check(salt, number)).then_some(number)
}

#[inline]
fn check(salt: u32, number: u64) -> u64 {
    let bytes = (number ^ u64::from(!salt)).to_le_bytes();
    let check = bytes.iter().zip(&SHARES).fold(CHECK, |check, (byte, shares)| check ^ shares[usize::from(*byte)]);
    u64::from(check & CHECK)
}

/// The bits of a check.
const CHECK: u16 = 0xfff;

/// For each place of a byte in a number, and each value of it: its share in the CRC-32, as far as a check has its bits.
/// The shares of all bytes are independent, while a CRC of bytes waits for the byte before.
static SHARES: [[u16; 256]; 8] = shares();

const fn shares() -> [[u16; 256]; 8] {
    let mut shares = [[0; 256]; 8];
    let mut value = 0;
    while value < 256 {
        let mut crc = value as u32;
        let mut place = 8;
        while place > 0 {
            let mut bit = 0;
            while bit < 8 {
                crc = crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0xedb8_8320 };
                bit += 1;
            }
            place -= 1;
            shares[place][value] = crc as u16;
        }
        value += 1;
    }
    shares
}

#[cfg(test)]
mod tests;
