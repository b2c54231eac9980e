//! After how long the lines of a region of memory come back, roughly: what is known of a line that is new.

use super::reuse::bucket;

/// Base-two logarithm of the lines of a region: 512 KiB.
const LINES_BITS: u32 = 13;

/// Base-two logarithm of how many are kept apart; others share with these.
const COUNT_BITS: u32 = 9;

/// From soon to hardly.
pub const LEVELS: usize = EDGES.len() + 1;

/// Each bucket of ages counts so much in the average.
const BUCKET: u8 = 12;

/// A line that did not come back counts as this.
const NEVER: u8 = 21 * BUCKET;

/// From each of these averages on it is a level later.
const EDGES: [u8; 4] = [40, 70, 115, 160];

/// The average moves by this part of the difference.
const PART: i16 = 8;

/// What comes back: any access, or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Used,
    Written,
}

/// The average of a region of which nothing is known.
const AT_FIRST: u8 = 96;

/// A moving average of each region.
pub struct Regions {
    averages: [[u8; 1 << COUNT_BITS]; 2],
    levels: [[u8; 1 << COUNT_BITS]; 2],
}

impl Default for Regions {
    fn default() -> Self {
        Self { averages: [[AT_FIRST; 1 << COUNT_BITS]; 2], levels: [[level(AT_FIRST); 1 << COUNT_BITS]; 2] }
    }
}

fn level(average: u8) -> u8 {
    EDGES.iter().map(|edge| u8::from(average >= *edge)).sum()
}

/// Where the region of a line is kept.
#[inline]
pub fn region(line: u64) -> u16 {
    ((line >> LINES_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNT_BITS)) as u16
}

impl Regions {
    /// Below [`LEVELS`].
    #[inline]
    pub fn level(&self, line: u64, kind: Kind) -> u8 {
        self.levels[kind as usize][usize::from(region(line))]
    }

    /// `line` came back at this age, or did not.
    pub fn learn(&mut self, line: u64, kind: Kind, age: Option<u8>) {
        self.learn_at(region(line), kind, age);
    }

    /// The same, by region.
    pub fn learn_at(&mut self, region: u16, kind: Kind, age: Option<u8>) {
        let average = &mut self.averages[kind as usize][usize::from(region)];
        let now = age.map_or(NEVER, |age| bucket(age) as u8 * BUCKET);
        let off = i16::from(now) - i16::from(*average);
        let step = if off.abs() < PART { off.signum() } else { off / PART };
        *average = (i16::from(*average) + step) as u8;
        self.levels[kind as usize][usize::from(region)] = level(*average);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that are forgotten make their neighbours ones that hardly come back; lines that come back at once, soon.
    #[test]
    fn a_region_is_what_its_lines_did() {
        let mut regions = Regions::default();
        assert_eq!(regions.level(0, Kind::Used), 2);
        (0..30).for_each(|line| regions.learn(line, Kind::Used, None));
        assert_eq!((regions.level(8191, Kind::Used), regions.level(0, Kind::Written)), (4, 2));
        assert_eq!(regions.level(8192, Kind::Used), 2, "another region");
        (0..60).for_each(|line| regions.learn(line, Kind::Used, Some(1)));
        assert_eq!(regions.level(4000, Kind::Used), 0);
    }
}
