//! The lines that another policy would have in a set.

use crate::cache::set::{Rank, Set};

/// The lines of one set under another policy, by a hash of the number of each.
#[derive(Clone)]
pub struct ShadowSet<S> {
    set: S,
    /// The filled ways, a bit each.
    filled: u64,
}

/// The result of an access under the other policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowAccess {
    /// The way of the line after the access.
    pub way: usize,
    /// True if the line was in the set.
    pub is_hit: bool,
    /// True if the line was dirty before.
    pub was_dirty: bool,
}

/// The cost of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowCost {
    /// True if the access misses.
    pub misses: bool,
    /// True if a clean line becomes dirty and so will be written back.
    pub dirties: bool,
}

impl ShadowAccess {
    /// Returns the cost of a read or a write.
    #[inline]
    pub fn cost(self, is_write: bool) -> ShadowCost {
        ShadowCost { misses: !self.is_hit, dirties: is_write && !self.was_dirty }
    }
}

impl<S: Set> ShadowSet<S> {
    /// The shadow of an empty set.
    pub const EMPTY: Self = Self { set: S::EMPTY, filled: 0 };

    /// Returns true if the line with the hash `print` is present and dirty.
    #[inline(always)]
    pub fn is_dirty(&self, print: u16) -> bool {
        let found = (self.set.matches(print) & self.filled).checked_ilog2();
        found.is_some_and(|way| self.set.dirty() >> self.set.rank(way as usize) & 1 != 0)
    }

    /// Returns the number of dirty lines.
    #[inline(always)]
    pub fn dirty_lines(&self) -> u32 {
        self.set.dirty().count_ones()
    }

    /// Applies an access to the line with the hash `print`, in a set of `ways` ways; `victim` returns the rank of the
    /// line that a full set replaces.
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
