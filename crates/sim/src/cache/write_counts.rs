//! How often each line of memory was written.

use super::line_numbers::LineNumbers;

/// A count for each line of a bank. Most counts are small, and one byte each keeps more of them in the processor's
/// caches.
#[derive(Clone, Debug)]
pub struct WriteCounts {
    /// The low part of each count, at least 1.
    rests: LineNumbers<u8>,
    /// The remaining part, for the lines that were written most.
    carried: LineNumbers<u64>,
}

/// A full low part; the next write makes it 1 again.
const FULL: u8 = u8::MAX;

impl WriteCounts {
    /// Returns counts of 0 for lines of which the low `bank_bits` bits agree.
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

    /// Returns each line that was written, with its count, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.rests.iter().map(|(line, rest)| (line, self.carried.get(line) + u64::from(rest)))
    }
}

#[cfg(test)]
mod tests;
