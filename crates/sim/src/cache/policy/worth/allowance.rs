//! The weight of a writeback in misses: the greater, the further the misses are below the allowed ones. Also the trust
//! in the learned worth: the greater, the more writebacks it would have saved.

use super::shadow_set::ShadowCost;

/// Two saturating counters that compare the learned policy with LRU.
pub struct WritebackAllowance {
    /// Allowed misses that are left, in parts of a miss.
    misses: i32,
    writebacks: i32,
}

/// Parts of a miss.
const WHOLE: i32 = 64;

/// Parts that each miss of LRU allows beyond one miss: 4.7 %.
const MISS_EXTRA: i32 = 3;

/// Saved misses that raise the weight by a step.
const STEP: i32 = 8 * WHOLE;

/// The most misses that are owed: older debts are forgiven.
const MISSES_OWED_MAX: i32 = 16 * WHOLE;
const WRITEBACKS_OWED_MAX: i32 = 1;

/// Saved writebacks that prove nothing.
const CHANCE: i32 = 4;

/// Further saved writebacks for full trust; trust grows in proportion.
const PROVEN: i32 = 16;

/// The weights, from half a miss to 27, four steps for a doubling, in parts of [`WritebackAllowance::ONE`].
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

    /// Full trust.
    pub const TRUST: u32 = PROVEN as u32;

    /// Counts an access to a set with shadows: the costs under LRU, and under the learned worth.
    pub fn access(&mut self, lru: ShadowCost, own: ShadowCost) {
        let misses = self.misses + i32::from(lru.misses) * (WHOLE + MISS_EXTRA) - i32::from(own.misses) * WHOLE;
        self.misses = misses.clamp(-MISSES_OWED_MAX, WEIGHTS.len() as i32 * STEP - 1);
        let writebacks = self.writebacks + i32::from(lru.dirties) - i32::from(own.dirties);
        self.writebacks = writebacks.clamp(-WRITEBACKS_OWED_MAX, CHANCE + PROVEN);
    }

    /// Returns the weight of a writeback.
    #[inline]
    pub fn weight(&self) -> u32 {
        WEIGHTS[(self.misses.max(0) / STEP) as usize]
    }

    /// Returns true if there were more misses than allowed.
    #[inline]
    pub fn owes(&self) -> bool {
        self.misses < 0
    }

    /// Returns the trust in the learned worth, up to [`WritebackAllowance::TRUST`]; 0 while misses are owed.
    #[inline]
    pub fn trust(&self) -> u32 {
        let saved = if self.owes() { 0 } else { self.writebacks - CHANCE };
        saved.clamp(0, PROVEN) as u32
    }
}

#[cfg(test)]
mod tests;
