//! How often each line of memory was written.

use super::numbers::Numbers;

/// A count for each line of a bank. Most are small, and the smaller they are kept the more of them are near.
#[derive(Clone, Debug)]
pub struct Writes {
    /// The rests of the counts, 1 at least.
    rests: Numbers<u8>,
    /// What more there is, of the lines that were written most.
    carried: Numbers<u64>,
}

/// A rest that is full; with the next write it is 1 again.
const FULL: u8 = u8::MAX;

impl Writes {
    /// None yet, of lines that have so many low bits in common.
    pub fn new(bank_bits: u32) -> Self {
        Self { rests: Numbers::new(bank_bits), carried: Numbers::new(bank_bits) }
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
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Some lines are written so often that their counts are carried, more than once.
    #[test]
    fn counts_are_those_of_a_map() {
        let (mut writes, mut map) = (Writes::new(2), HashMap::new());
        for n in 0..50_000_u64 {
            let line = if n % 3 == 0 { n % 17 * 4 + 3 } else { (n * n) % 7919 * 4096 + 3 };
            writes.add(line);
            *map.entry(line).or_insert(0_u64) += 1;
        }
        assert!(map.values().any(|count| *count > 3 * u64::from(FULL)));
        assert_eq!(writes.iter().collect::<HashMap<_, _>>(), map);
    }

    /// A rest that is full is no count of its own: 255 is told before the next write, 256 and 510 after.
    #[test]
    fn a_count_is_carried_when_it_is_full() {
        let mut writes = Writes::new(0);
        for count in 1..=3 * u64::from(FULL) + 1 {
            writes.add(9);
            assert_eq!(writes.iter().collect::<Vec<_>>(), [(9, count)]);
        }
    }
}
