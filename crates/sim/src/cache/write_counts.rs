//! How often each line of memory was written.

use super::line_numbers::LineNumbers;

/// A count for each line of a bank. Most are small, and the smaller they are kept the more of them are near.
#[derive(Clone, Debug)]
pub struct WriteCounts {
    /// The rests of the counts, 1 at least.
    rests: LineNumbers<u8>,
    /// What more there is, of the lines that were written most.
    carried: LineNumbers<u64>,
}

/// A rest that is full; with the next write it is 1 again.
const FULL: u8 = u8::MAX;

impl WriteCounts {
    /// None yet, of lines that have so many low bits in common.
    pub fn new(bank_bits: u32) -> Self {
        Self { rests: LineNumbers::new(bank_bits), carried: LineNumbers::new(bank_bits) }
    }

    /// Counts one write of `line`.
    #[inline(always)]
    pub fn add(&mut self, line: u64) {
        let rest = self.rests.of(line);
        if *rest < FULL {
            *rest += 1;
        } else {
            *rest = 1;
            self.carry(line);
        }
    }

    #[cold]
    fn carry(&mut self, line: u64) {
        *self.carried.of(line) += u64::from(FULL);
    }

    /// Each line that was written, and how often, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.rests.iter().map(|(line, rest)| (line, self.carried.get(line) + u64::from(rest)))
    }
}

#[cfg(test)]
mod tests;
