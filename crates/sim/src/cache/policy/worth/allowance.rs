//! How many misses a writeback counts as: the more, the further the misses are below what is allowed. How far to trust
//! what was learned: the further, the more writebacks were saved. And when to do as LRU does: when there are more misses or
//! more writebacks than it would have.

use super::shadow::Lru;

/// Two saturating counters, of what was allowed and not had. What was had beyond that is owed, and has to be saved again.
pub struct Allowance {
    /// Parts of misses.
    misses: i32,
    /// Parts of writebacks.
    writebacks: i32,
    /// Whether one was used up, and not enough was saved since.
    is_spent: bool,
}

/// Parts of a miss, and of a writeback.
const WHOLE: i32 = 64;

/// For each miss of LRU so many parts more than one are allowed: 4.7 %.
const MISS_EXTRA: i32 = 3;

/// For each writeback of LRU so many parts more than one are allowed to who has less than [`AGAIN`], so that one who has
/// spent all may try again.
const WRITEBACK_EXTRA: i32 = 1;

/// So many saved misses raise the weight by a step.
const STEP: i32 = 4 * WHOLE;

/// It tries again with so many saved writebacks.
const AGAIN: i32 = WHOLE / 2;

/// More writebacks are not saved up.
const SAVED_MAX: i32 = 64 * WHOLE;

/// More is not owed: what is longer ago is forgiven.
const OWED_MAX: i32 = 16 * WHOLE;

/// With so many saved writebacks what was learned is trusted; with none not at all, between in proportion.
const PROVEN: i32 = 32;

/// From half a miss to 27, four steps for a doubling, in parts of [`Allowance::ONE`].
const WEIGHTS: [u32; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

impl Default for Allowance {
    fn default() -> Self {
        Self { misses: STEP, writebacks: AGAIN, is_spent: false }
    }
}

impl Allowance {
    /// The weight of one miss.
    pub const ONE: u32 = 16;

    /// An access to a set with a shadow: what LRU does, and what we do.
    pub fn access(&mut self, lru: Lru, own: Lru) {
        let change = |lru: bool, own: bool, extra| i32::from(lru) * (WHOLE + extra) - i32::from(own) * WHOLE;
        let misses = self.misses + change(lru.misses, own.misses, MISS_EXTRA);
        self.misses = misses.clamp(-OWED_MAX, WEIGHTS.len() as i32 * STEP - 1);
        let extra = if self.writebacks < AGAIN { WRITEBACK_EXTRA } else { 0 };
        let writebacks = self.writebacks + change(lru.dirties, own.dirties, extra);
        self.writebacks = writebacks.clamp(-OWED_MAX, SAVED_MAX);
        self.is_spent = if self.is_spent {
            self.misses < STEP || self.writebacks < AGAIN
        } else {
            self.misses < 0 || self.writebacks < 0
        };
    }

    /// The weight of a writeback, if there is anything to spare.
    #[inline]
    pub fn weight(&self) -> Option<u32> {
        (!self.is_spent).then(|| WEIGHTS[(self.misses / STEP) as usize])
    }

    /// What the least recent line counts for that is worth so much.
    #[inline]
    pub fn cautious(&self, worth: u32) -> u32 {
        let saved = (self.writebacks - AGAIN) / WHOLE;
        worth * saved.clamp(0, PROVEN) as u32 / PROVEN as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Lru = Lru { misses: true, dirties: true };
    const NONE: Lru = Lru { misses: false, dirties: false };
    const MISS: Lru = Lru { misses: true, dirties: false };
    const DIRTY: Lru = Lru { misses: false, dirties: true };

    /// Four misses that LRU does not have, and a writeback counts for a step less; as many that it has, for one more.
    #[test]
    fn the_weight_follows_the_misses() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.weight(), Some(10));
        (0..4).for_each(|_| allowance.access(NONE, MISS));
        assert_eq!(allowance.weight(), Some(8));
        (0..4).for_each(|_| allowance.access(MISS, NONE));
        assert_eq!(allowance.weight(), Some(10));
        (0..10_000).for_each(|_| allowance.access(MISS, NONE));
        assert_eq!(allowance.weight(), Some(431));
    }

    /// What is owed has to be saved again before there is another weight than none: of misses 3/64 at a time.
    #[test]
    fn what_is_spent_has_to_be_saved_again() {
        let mut allowance = Allowance::default();
        (0..5).for_each(|_| allowance.access(NONE, MISS));
        assert_eq!(allowance.weight(), None);
        let tries = (1..2000).find(|_| {
            allowance.access(BOTH, BOTH);
            allowance.weight().is_some()
        });
        assert_eq!(tries, Some(5 * 64 / 3 + 1), "5 misses: one owed, and a step");
    }

    /// LRU is believed until it has been bettered, half and half at sixteen writebacks.
    #[test]
    fn what_was_learned_is_trusted_when_it_has_saved() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.cautious(1600), 0);
        (0..16).for_each(|_| allowance.access(DIRTY, NONE));
        assert_eq!(allowance.cautious(1600), 800);
        (0..16).for_each(|_| allowance.access(DIRTY, NONE));
        assert_eq!(allowance.cautious(1600), 1600);
        (0..1000).for_each(|_| allowance.access(NONE, DIRTY));
        assert_eq!(allowance.cautious(1600), 0);
    }

    /// The same of lines that become dirty, though no miss is owed; beyond 16 it is forgiven.
    #[test]
    fn writebacks_are_not_to_be_more_than_those_of_lru() {
        let mut allowance = Allowance::default();
        (0..1000).for_each(|_| allowance.access(NONE, DIRTY));
        assert_eq!((allowance.weight(), allowance.writebacks), (None, -16 * WHOLE));
        (0..17).for_each(|_| allowance.access(DIRTY, NONE));
        assert_eq!(allowance.weight(), Some(10));
    }
}
