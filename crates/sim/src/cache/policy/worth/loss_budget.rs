//! The savings over LRU that a bank may lose again. While the bank has nothing to lose, its sets follow LRU.
//!
//! A budget compares watched sets with their LRU [`ShadowSet`]: the costs so far, and the lines that they hold. A dirty
//! line that LRU still holds, and the set no longer does, is at risk. If the program writes it again, the set pays for
//! a writeback that LRU saves. The budget also compares the shadow that always trusts.
//!
//! 1. A bank departs from LRU only while its misses and writebacks stay within a margin over LRU's: 3/64 more misses,
//!    1/128 more writebacks, and a few of each at first.
//! 2. A bank departs from LRU only while its savings cover the lines at risk: once in the sets themselves, or twice in
//!    the shadow that always trusts. Then it can lose all these lines, and LRU is not better.
//! 3. Debts and savings do not expire. Savings saturate at the sum that covers all lines of the watched sets: more
//!    lines cannot be at risk.

use super::shadow_set::{ShadowAccess, ShadowCost, ShadowSet};
use crate::cache::set::Set;

/// Parts of a miss, or of a writeback.
const WHOLE: i64 = 128;

/// Parts that each miss of LRU allows beyond one miss.
const MISS_EXTRA: i64 = 6;

/// Parts that each writeback of LRU allows beyond one writeback.
const WRITEBACK_EXTRA: i64 = 1;

/// Misses and writebacks that may be lost before anything was saved.
const MISSES_AT_FIRST: i64 = 8;
const WRITEBACKS_AT_FIRST: i64 = 2;

/// Parts of writebacks that cover a line at risk, in the sets themselves and in the shadow that always trusts.
const COVER: i64 = WHOLE;
const COVER_TRUSTING: i64 = 2 * WHOLE;

/// The budget of a bank.
pub struct LossBudget {
    /// Parts of misses that may be lost.
    misses: i64,
    /// The account of the sets themselves.
    own: SavingsAccount,
    /// The account of the shadow that always trusts.
    trusting: SavingsAccount,
    /// Lines that watched sets hold.
    lines: i64,
}

/// The savings over LRU, and the lines that put them at risk.
#[derive(Clone, Copy)]
struct SavingsAccount {
    /// Parts of writebacks.
    saved: i64,
    /// Lines at risk in all watched sets.
    at_risk: i64,
}

impl SavingsAccount {
    const AT_FIRST: Self = Self { saved: WRITEBACKS_AT_FIRST * WHOLE, at_risk: 0 };

    #[inline(always)]
    fn access(&mut self, lru: ShadowCost, paid: AccessCost, saved_max: i64) {
        let saved = i64::from(lru.dirties) * (WHOLE + WRITEBACK_EXTRA) - i64::from(paid.cost.dirties) * WHOLE;
        self.saved = (self.saved + saved).min(saved_max);
        self.at_risk += paid.more_at_risk;
    }

    #[inline(always)]
    fn covers_risk(&self, each: i64) -> bool {
        self.saved >= self.at_risk * each
    }
}

/// The cost of an access to a watched set.
#[derive(Clone, Copy)]
pub struct AccessCost {
    /// The cost in misses and dirty lines.
    pub cost: ShadowCost,
    /// The change in the number of lines at risk in that set.
    pub more_at_risk: i64,
}

impl LossBudget {
    /// Returns the budget of a bank whose watched sets hold `lines` lines.
    pub fn of(lines: usize) -> Self {
        let (misses, account) = (MISSES_AT_FIRST * WHOLE, SavingsAccount::AT_FIRST);
        Self { misses, own: account, trusting: account, lines: lines as i64 }
    }

    /// Counts the costs of an access to a watched set: under LRU, in the set itself, and in the shadow that always
    /// trusts.
    #[inline(always)]
    pub fn access(&mut self, lru: ShadowCost, own: AccessCost, trusting: AccessCost) {
        let misses = i64::from(lru.misses) * (WHOLE + MISS_EXTRA) - i64::from(own.cost.misses) * WHOLE;
        self.misses = (self.misses + misses).min(self.lines * WHOLE);
        self.own.access(lru, own, self.lines * COVER);
        self.trusting.access(lru, trusting, self.lines * COVER_TRUSTING);
    }

    /// Returns true if the bank has nothing to lose.
    #[inline]
    pub fn is_spent(&self) -> bool {
        let is_covered = self.own.covers_risk(COVER) || self.trusting.covers_risk(COVER_TRUSTING);
        self.misses < 0 || self.own.saved < 0 || !is_covered
    }
}

/// The lines of a watched set, by a hash of the number of each.
pub struct SetMirror<const W: usize> {
    prints: [u16; W],
    /// The ways that were filled, a bit each.
    filled: u64,
    /// The dirty ways, a bit each.
    dirty: u64,
    at_risk: i64,
}

impl<const W: usize> SetMirror<W> {
    /// The mirror of an empty set.
    pub const EMPTY: Self = Self { prints: [0; W], filled: 0, dirty: 0, at_risk: 0 };

    /// Applies an access to the line with the hash `print`, which the set and LRU's shadow have already applied.
    /// Returns the change in the number of lines at risk.
    #[inline(always)]
    pub fn access<S: Set>(&mut self, print: u16, is_write: bool, seen: ShadowAccess, lru: &ShadowSet<S>) -> i64 {
        let way = seen.way % W;
        self.prints[way] = print;
        self.filled |= 1 << way;
        self.dirty = self.dirty & !(1 << way) | u64::from(is_write || seen.was_dirty) << way;
        let both_dirty = (0..W).filter(|way| self.is_dirty(*way) && lru.is_dirty(self.prints[*way])).count();
        let at_risk = i64::from(lru.dirty_lines()).saturating_sub(both_dirty as i64).max(0);
        at_risk - std::mem::replace(&mut self.at_risk, at_risk)
    }

    #[inline(always)]
    fn is_dirty(&self, way: usize) -> bool {
        self.filled & self.dirty & 1 << way != 0
    }
}

#[cfg(test)]
mod tests;
