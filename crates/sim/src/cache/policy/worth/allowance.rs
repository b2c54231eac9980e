//! How many misses a writeback counts as: the more, the further the misses are below what is allowed. How far to trust
//! what was learned: the further, the more writebacks it would have saved.

use super::shadow_set::ShadowCost;

/// Two saturating counters of how much less it would have cost than LRU to do as was learned.
pub struct WritebackAllowance {
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

/// From half a miss to 27, four steps for a doubling, in parts of [`WritebackAllowance::ONE`].
const WEIGHTS: [u32; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

impl Default for WritebackAllowance {
    fn default() -> Self {
        Self { misses: STEP, writebacks: 0 }
    }
}

impl WritebackAllowance {
    /// The weight of one miss.
    pub const ONE: u32 = 16;

    /// All trust.
    pub const TRUST: u32 = PROVEN as u32;

    /// An access to a set with shadows: what LRU does, and what was learned.
    pub fn access(&mut self, lru: ShadowCost, own: ShadowCost) {
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

    /// How far to trust what was learned, of [`WritebackAllowance::TRUST`]: not at all while misses are owed.
    #[inline]
    pub fn trust(&self) -> u32 {
        let saved = if self.owes() { 0 } else { self.writebacks - CHANCE };
        saved.clamp(0, PROVEN) as u32
    }
}

#[cfg(test)]
mod tests;
