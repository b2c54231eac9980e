//! How many misses a writeback counts as: the more, the further the misses are below what is allowed.

/// A saturating counter of the misses that were allowed and not had.
pub struct Allowance {
    /// In parts of a miss.
    saved: u32,
}

/// Parts of a miss.
const MISS: u32 = 64;

/// For each miss of LRU so many parts more than one are allowed: 4.7 %.
const EXTRA: u32 = 3;

/// So many saved misses raise the weight by a step.
const STEP: u32 = 43 * MISS;

/// From half a miss to 27, four steps for a doubling, in parts of [`Allowance::ONE`].
const WEIGHTS: [u16; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

/// It begins with a weight of 4.
const BEGIN: u32 = 12 * STEP;

impl Default for Allowance {
    fn default() -> Self {
        Self { saved: BEGIN }
    }
}

impl Allowance {
    /// The weight of one miss.
    pub const ONE: u64 = 16;

    /// An access, and whether LRU would have missed and we did.
    pub fn count(&mut self, lru_missed: bool, missed: bool) {
        let more = if lru_missed { MISS + EXTRA } else { 0 };
        let less = if missed { MISS } else { 0 };
        let most = WEIGHTS.len() as u32 * STEP - 1;
        self.saved = (self.saved + more).saturating_sub(less).min(most);
    }

    /// The weight of a writeback.
    #[inline]
    pub fn weight(&self) -> u64 {
        WEIGHTS[(self.saved / STEP) as usize].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 43 misses beyond LRU's and a writeback counts for less; as many saved, and it counts for more again.
    #[test]
    fn the_weight_follows_the_misses() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.weight(), 4 * Allowance::ONE);
        (0..43).for_each(|_| allowance.count(false, true));
        assert_eq!(allowance.weight(), 54);
        (0..42).for_each(|_| allowance.count(true, false));
        assert_eq!(allowance.weight(), 64, "42 of 67 parts are 43 of 64");
    }

    /// Neither end runs over, and 4.7 % more misses than LRU's leave the weight where it is.
    #[test]
    fn the_weight_has_ends_and_a_rest() {
        let mut allowance = Allowance::default();
        (0..100_000).for_each(|_| allowance.count(false, true));
        assert_eq!(allowance.weight(), u64::from(WEIGHTS[0]));
        (0..100_000).for_each(|_| allowance.count(true, false));
        assert_eq!(allowance.weight(), 431);
        let mut allowance = Allowance::default();
        (0..64).for_each(|_| allowance.count(true, true));
        (0..3).for_each(|_| allowance.count(false, true));
        assert_eq!(allowance.saved, BEGIN);
    }
}
