//! A sum that a copy computes for almost no time.
//!
//! Fletcher's two sums ("An arithmetic checksum for serial transmissions", IEEE Transactions on Communications 30,
//! 1982) of 64-bit words in eight lanes: one lane for each word of a 64-byte line, so that vectors add whole lines. The
//! sums always show a single changed word. They detect the stores that a crash left out, not an adversary. Every
//! processor can compute them, even for one line; the CRC of a copy (`copy::copy_and_sum`) needs more of both.

use crate::mix::{FACTORS, fold};

/// Both sums of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher {
    /// Of the words of each lane.
    first: [u64; 8],
    /// Of what the first one was behind each line.
    second: [u64; 8],
}

impl Fletcher {
    /// Bytes of a line.
    pub const LINE_BYTES: usize = 64;

    /// Those with these lanes.
    pub(crate) fn of(first: [u64; 8], second: [u64; 8]) -> Self {
        Self { first, second }
    }

    /// Adds whole lines; what is behind the last one is left out.
    pub fn add(&mut self, lines: &[u8]) {
        for line in lines.as_chunks::<{ Self::LINE_BYTES }>().0 {
            let words = line.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            for ((first, second), word) in self.first.iter_mut().zip(&mut self.second).zip(words) {
                *first = first.wrapping_add(word);
                *second = second.wrapping_add(*first);
            }
        }
    }

    /// Both in 32 bits.
    #[inline]
    pub fn finish(&self) -> u32 {
        let lanes = self.first.iter().zip(&self.second);
        (lanes.fold(0, |all, (first, second)| fold(all ^ first ^ FACTORS[0], second ^ FACTORS[1])) >> 32) as u32
    }
}

#[cfg(test)]
mod tests;
