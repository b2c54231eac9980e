//! How many misses a writeback counts as: the more, the further the misses are below what is allowed. How far to trust
//! what was learned: the further, the more writebacks it would have saved.

use super::shadow::Cost;

/// Two saturating counters of how much less it would have cost than LRU to do as was learned.
pub struct Allowance {
    /// Parts of misses, of those that are allowed.
    misses: i32,
    writebacks: i32,
}

/// Parts of a miss.
const WHOLE: i32 = 64;

/// For each miss of LRU so many parts more than one are allowed: 4.7 %.
const MISS_EXTRA: i32 = 3;

/// So many saved misses raise the weight by a step.
const STEP: i32 = 8 * WHOLE;

/// More is not owed: what is longer ago is forgiven.
const MISSES_OWED_MAX: i32 = 16 * WHOLE;
const WRITEBACKS_OWED_MAX: i32 = 1;

/// So many saved writebacks prove nothing.
const CHANCE: i32 = 4;

/// With so many more what was learned is trusted; between in proportion.
const PROVEN: i32 = 16;

/// From half a miss to 27, four steps for a doubling, in parts of [`Allowance::ONE`].
const WEIGHTS: [u32; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

impl Default for Allowance {
    fn default() -> Self {
        Self { misses: STEP, writebacks: 0 }
    }
}

impl Allowance {
    /// The weight of one miss.
    pub const ONE: u32 = 16;

    /// All trust.
    pub const TRUST: u32 = PROVEN as u32;

    /// An access to a set with shadows: what LRU does, and what was learned.
    pub fn access(&mut self, lru: Cost, own: Cost) {
        let misses = self.misses + i32::from(lru.misses) * (WHOLE + MISS_EXTRA) - i32::from(own.misses) * WHOLE;
        self.misses = misses.clamp(-MISSES_OWED_MAX, WEIGHTS.len() as i32 * STEP - 1);
        let writebacks = self.writebacks + i32::from(lru.dirties) - i32::from(own.dirties);
        self.writebacks = writebacks.clamp(-WRITEBACKS_OWED_MAX, CHANCE + PROVEN);
    }

    /// The weight of a writeback.
    #[inline]
    pub fn weight(&self) -> u32 {
        WEIGHTS[(self.misses.max(0) / STEP) as usize]
    }

    /// Whether more was missed than is allowed.
    #[inline]
    pub fn owes(&self) -> bool {
        self.misses < 0
    }

    /// How far to trust what was learned, of [`Allowance::TRUST`]: not at all while misses are owed.
    #[inline]
    pub fn trust(&self) -> u32 {
        let saved = if self.owes() { 0 } else { self.writebacks - CHANCE };
        saved.clamp(0, PROVEN) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Cost = Cost { misses: true, dirties: true };
    const NONE: Cost = Cost { misses: false, dirties: false };
    const MISS: Cost = Cost { misses: true, dirties: false };
    const DIRTY: Cost = Cost { misses: false, dirties: true };

    /// Eight misses that LRU does not have, and a writeback counts for a step less; as many that it has, for one more.
    #[test]
    fn the_weight_follows_the_misses() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.weight(), 10);
        (0..8).for_each(|_| allowance.access(NONE, MISS));
        assert_eq!(allowance.weight(), 8);
        (0..8).for_each(|_| allowance.access(MISS, NONE));
        assert_eq!(allowance.weight(), 10);
        (0..10_000).for_each(|_| allowance.access(MISS, NONE));
        assert_eq!(allowance.weight(), 431);
    }

    /// LRU is believed until it has been bettered by more than chance, half and half 8 writebacks later; and again soon
    /// after it was better, however long.
    #[test]
    fn what_was_learned_is_trusted_when_it_would_have_saved() {
        let mut allowance = Allowance::default();
        let mut after = |count, lru, own| {
            (0..count).for_each(|_| allowance.access(lru, own));
            allowance.trust()
        };
        assert_eq!(after(4, DIRTY, NONE), 0);
        assert_eq!(after(8, DIRTY, NONE), Allowance::TRUST / 2);
        assert_eq!(after(10_000, DIRTY, NONE), Allowance::TRUST);
        assert_eq!(after(16, NONE, DIRTY), 0);
        assert_eq!(after(10_000, NONE, DIRTY), 0);
        assert_eq!(after(6, DIRTY, NONE), 1, "one is owed, four prove nothing");
    }

    /// Nine misses where eight were to spare: until the ninth is saved again, 3/64 at a time, there is no trust.
    #[test]
    fn what_is_owed_has_to_be_saved_again() {
        let mut allowance = Allowance::default();
        (0..20).for_each(|_| allowance.access(DIRTY, NONE));
        (0..9).for_each(|_| allowance.access(NONE, MISS));
        assert_eq!((allowance.trust(), allowance.weight()), (0, 8));
        let tries = (1..2000).find(|_| {
            allowance.access(BOTH, BOTH);
            allowance.trust() == Allowance::TRUST
        });
        assert_eq!(tries, Some(64_usize.div_ceil(3)));
    }
}
