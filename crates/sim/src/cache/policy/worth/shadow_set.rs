//! What another policy would have in a set.

use crate::cache::set::{Rank, Set};

/// The lines of one set under another policy, by a hash of the number of each.
#[derive(Clone)]
pub struct ShadowSet<S> {
    set: S,
    /// The ways that were filled, a bit each.
    filled: u64,
}

/// What it does at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowAccess {
    /// Where the line is, now.
    pub way: usize,
    /// Whether it was there.
    pub is_hit: bool,
    /// Whether it was dirty.
    pub was_dirty: bool,
}

/// What that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowCost {
    /// Whether it misses.
    pub misses: bool,
    /// Whether a line becomes dirty that was not: it will have to be written back.
    pub dirties: bool,
}

impl ShadowAccess {
    /// Of a read or a write.
    #[inline]
    pub fn cost(self, is_write: bool) -> ShadowCost {
        ShadowCost { misses: !self.is_hit, dirties: is_write && !self.was_dirty }
    }
}

impl<S: Set> ShadowSet<S> {
    /// Nothing is in it.
    pub const EMPTY: Self = Self { set: S::EMPTY, filled: 0 };

    /// Whether the line with this hash is in it, and dirty.
    #[inline(always)]
    pub fn is_dirty(&self, print: u16) -> bool {
        let found = (self.set.matches(print) & self.filled).checked_ilog2();
        found.is_some_and(|way| self.set.dirty() >> self.set.rank(way as usize) & 1 != 0)
    }

    /// How many of its lines are dirty.
    #[inline(always)]
    pub fn dirty_lines(&self) -> u32 {
        self.set.dirty().count_ones()
    }

    /// An access to a line with this hash, in a set of so many ways: `victim` tells the rank of what leaves a full one.
    #[inline(always)]
    pub fn access(&mut self, print: u16, is_write: bool, ways: u32, victim: impl FnOnce(&S) -> Rank) -> ShadowAccess {
        let found = (self.set.matches(print) & self.filled).checked_ilog2();
        let rank = match found {
            Some(way) => self.set.rank(way as usize),
            None if self.filled.count_ones() < ways => ways - 1,
            None => victim(&self.set),
        };
        let (way, is_hit) = (self.set.way(rank), found.is_some());
        let was_dirty = is_hit && self.set.dirty() >> rank & 1 != 0;
        if !is_hit {
            self.filled |= 1 << way;
            self.set.replace(rank, print);
        }
        self.set.promote(rank, 0, is_write);
        ShadowAccess { way, is_hit, was_dirty }
    }
}

#[cfg(test)]
mod tests;
