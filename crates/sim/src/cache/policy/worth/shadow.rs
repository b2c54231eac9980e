//! What another policy would have in a set.

use crate::cache::set::{Rank, Set};

/// The lines of one set under another policy, by a hash of the number of each.
#[derive(Clone)]
pub struct Shadow<S> {
    set: S,
    /// The ways that were filled, a bit each.
    filled: u64,
}

/// What it does at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where the line is, now.
    pub way: usize,
    /// Whether it was there.
    pub is_hit: bool,
    /// Whether it was dirty.
    pub was_dirty: bool,
}

/// What that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Whether it misses.
    pub misses: bool,
    /// Whether a line becomes dirty that was not: it will have to be written back.
    pub dirties: bool,
}

impl Seen {
    /// Of a read or a write.
    #[inline]
    pub fn cost(self, is_write: bool) -> Cost {
        Cost { misses: !self.is_hit, dirties: is_write && !self.was_dirty }
    }
}

impl<S: Set> Shadow<S> {
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
    pub fn access(&mut self, print: u16, is_write: bool, ways: u32, victim: impl FnOnce(&S) -> Rank) -> Seen {
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
        Seen { way, is_hit, was_dirty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Narrow;

    /// Two ways: 0 is written, 3 pushes it out, and when it is written again it becomes dirty again.
    #[test]
    fn it_has_what_its_policy_would_have() {
        let mut shadow = Shadow::<Narrow>::EMPTY;
        let mut lru = |print, is_write| shadow.access(print, is_write, 2, |_| 1).cost(is_write);
        let cost = |misses, dirties| Cost { misses, dirties };
        assert_eq!(lru(0, true), cost(true, true), "no unfilled way is taken for it");
        assert_eq!(lru(2, false), cost(true, false));
        assert_eq!(lru(0, true), cost(false, false), "dirty already");
        assert_eq!(lru(2, false), cost(false, false));
        assert_eq!(lru(3, false), cost(true, false), "0 left");
        assert_eq!(lru(0, true), cost(true, true));
        assert_eq!(lru(3, true), cost(false, true));
        assert!(shadow.access(7, false, 2, |_| 0).cost(false).misses);
        assert!(!shadow.access(0, false, 2, |_| 0).cost(false).misses, "3 left, which was the most recent");
    }
}
