//! What LRU would have in a set.

use crate::cache::set::Set;

/// The lines of one set under LRU, by a hash of the number of each.
#[derive(Clone)]
pub struct Shadow<S> {
    set: S,
    /// The ways that were filled, a bit each.
    filled: u64,
}

/// What LRU does at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lru {
    pub misses: bool,
    /// Whether a line becomes dirty that was not: it will have to be written back.
    pub dirties: bool,
}

impl<S: Set> Shadow<S> {
    /// Nothing is in it.
    pub const EMPTY: Self = Self { set: S::EMPTY, filled: 0 };

    /// An access to a line with this hash, in a set of so many ways.
    #[inline]
    pub fn access(&mut self, print: u16, is_write: bool, ways: u32) -> Lru {
        let found = (self.set.matches(print) & self.filled).checked_ilog2();
        let rank = found.map_or(ways - 1, |way| self.set.rank(way as usize));
        let was_dirty = found.is_some() && self.set.dirty() >> rank & 1 != 0;
        if found.is_none() {
            self.filled |= 1 << self.set.way(rank);
            self.set.replace(rank, print);
        }
        self.set.promote(rank, 0, is_write);
        Lru { misses: found.is_none(), dirties: is_write && !was_dirty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Narrow;

    /// Two ways: 0 is written, 3 pushes it out, and when it is written again it becomes dirty again.
    #[test]
    fn it_is_lru() {
        let mut shadow = Shadow::<Narrow>::EMPTY;
        let mut seen = |print, is_write| shadow.access(print, is_write, 2);
        let lru = |misses, dirties| Lru { misses, dirties };
        assert_eq!(seen(0, true), lru(true, true), "no unfilled way is taken for it");
        assert_eq!(seen(2, false), lru(true, false));
        assert_eq!(seen(0, true), lru(false, false), "dirty already");
        assert_eq!(seen(2, false), lru(false, false));
        assert_eq!(seen(3, false), lru(true, false), "0 left");
        assert_eq!(seen(0, true), lru(true, true));
        assert_eq!(seen(3, true), lru(false, true));
    }
}
