//! How often each line of memory was written.

use super::Geometry;
use super::table::Table;

/// A count for each line of a bank.
#[derive(Clone, Debug)]
pub struct Writes {
    /// The lower half of each.
    low: Table<u32>,
    /// A line each time that its lower half began anew: hardly ever.
    carried: Vec<u64>,
}

impl Writes {
    /// None yet, of the lines of a bank of such a cache.
    pub fn of(geometry: Geometry) -> Self {
        Self { low: Table::of(geometry), carried: Vec::new() }
    }

    /// Counts one write of `line`.
    #[inline]
    pub fn add(&mut self, line: u64) {
        let low = self.low.number(line);
        *low = low.wrapping_add(1);
        if *low == 0 {
            self.carried.push(line);
        }
    }

    /// Each line that was written, and how often, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let carries = |line| self.carried.iter().filter(|carried| **carried == line).count() as u64;
        let counts = self.low.iter().map(move |(line, low)| (line, u64::from(low) + (carries(line) << u32::BITS)));
        counts.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::cache::Shape;

    fn none() -> Writes {
        Writes::of(Geometry::of(Shape { bytes: 1 << 20, ways: 16, line_bytes: 64 }).expect("a cache"))
    }

    /// Neighbours, and such as are far from all others, up to the last line that there can be.
    #[test]
    fn counts_are_those_of_a_map() {
        let (mut writes, mut map) = (none(), HashMap::new());
        for n in 0..100_000_u64 {
            let line = match n % 3 {
                0 => (n * n) % 7919 * 4096 + 3,
                1 => n % 5000 * 4 + 3,
                _ => u64::MAX - n % 100 * 4,
            };
            writes.add(line);
            *map.entry(line).or_insert(0_u64) += 1;
        }
        assert_eq!(writes.iter().collect::<HashMap<_, _>>(), map);
    }

    #[test]
    fn a_count_may_be_longer_than_its_place() {
        let mut writes = none();
        *writes.low.number(9) = u32::MAX - 1;
        (0..3).for_each(|_| writes.add(9));
        assert_eq!(writes.iter().collect::<Vec<_>>(), [(9, (1 << 32) + 1)]);
    }
}
