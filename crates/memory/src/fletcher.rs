//! A sum that a copy has on the way for next to nothing.
//!
//! Fletcher's two sums ("An arithmetic checksum for serial transmissions", IEEE Transactions on Communications 30, 1982),
//! of 64-bit words in eight lanes: a lane for each word of a line of 64 bytes, so that vectors add whole lines. One word that
//! is another one than before is always seen in them. They tell what a crash left out, not an adversary. Every
//! processor can have them, and of one line too; a CRC on the way (`copy::copy_and_sum`) asks for more of both.

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
mod tests {
    use super::*;

    /// A crash leaves out words: none may go unseen.
    #[test]
    fn a_word_that_is_another_one_is_seen() {
        let bytes: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let sum = |bytes: &[u8]| {
            let mut sum = Fletcher::default();
            sum.add(bytes);
            sum.finish()
        };
        let right = sum(&bytes);
        for at in (0..bytes.len()).step_by(8) {
            let mut other = bytes.clone();
            other[at..at + 8].fill(0);
            assert_ne!(sum(&other), right, "the word at {at}");
            let next = (at + 64) % bytes.len();
            other[at..at + 8].copy_from_slice(&bytes[next..next + 8]);
            other[next..next + 8].copy_from_slice(&bytes[at..at + 8]);
            assert_ne!(sum(&other), right, "the words at {at} and {next} in each other's place");
        }
    }

    /// Lines of one byte are not as if there were none, nor as lines of another one.
    #[test]
    fn lines_that_are_alike_are_told_from_each_other() {
        let sums = (0..=255).flat_map(|byte| {
            (1..=64).map(move |lines| {
                let mut sum = Fletcher::default();
                (0..lines).for_each(|_| sum.add(&[byte; Fletcher::LINE_BYTES]));
                sum.finish()
            })
        });
        // Lines of zeros, however many, are one.
        let others: std::collections::BTreeSet<u32> = sums.collect();
        assert!(others.len() >= 255 * 64, "{}", others.len());
    }

    /// The sum on the medium is the same on every processor.
    #[test]
    fn sums_stay_what_they_are() {
        let mut sum = Fletcher::default();
        sum.add(&(0..=255).collect::<Vec<u8>>());
        assert_eq!((Fletcher::default().finish(), sum.finish()), SUMS);
    }

    const SUMS: (u32, u32) = (3_535_677_659, 481_910_757);
}
