//! One set of a cache: which line is in which way, how recently each was used, which are dirty.
//!
//! ```text
//!  prints   16 x u16   a hash of the line in each way: sixteen are compared at once
//!  order    16 x u4    the ways, from most to least recently used: nibble r is the way of rank r
//!  dirty    16 x u1    by rank
//!  marks    16 x u8    by way, for the policy
//!  state    u32        for the policy
//! ```
//!
//! It fills one line of the simulating machine's cache. Invariants:
//!
//! 1. `order` is a permutation of the ways; ranks beyond the ways are not touched.
//! 2. A way that was never filled is clean, and less recent than all filled ones of its window; so "the least recent
//!    clean way" is an invalid one as long as there is one.
//! 3. A window (all ranks, or those of one partition) keeps its ways: recency moves within it only.

use std::ops::Range;

/// The place of a way in the order of recency: 0 is the most recent.
pub type Rank = u32;

/// One set.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Set {
    prints: [u16; 16],
    order: u64,
    dirty: u16,
    /// A byte for each way that the policy may use.
    pub marks: [u8; 16],
    /// A word that the policy may use.
    pub state: u32,
}

/// Way r has rank r.
const UNUSED: u64 = 0xfedc_ba98_7654_3210;

const NIBBLES: u64 = 0x1111_1111_1111_1111;

impl Set {
    /// Nothing is in it.
    pub const EMPTY: Self = Self { prints: [0; 16], order: UNUSED, dirty: 0, marks: [0; 16], state: 0 };

    /// The ways whose line has this hash, a bit each. Whether it is that line their tags tell.
    #[inline]
    pub fn matches(&self, print: u16) -> u32 {
        let mut found = 0_u16;
        for (way, known) in self.prints.iter().enumerate() {
            found |= if *known == print { 1 << way } else { 0 };
        }
        found.into()
    }

    /// The way of a rank.
    #[inline]
    pub fn way(&self, rank: Rank) -> usize {
        (self.order >> (4 * rank) & 0xf) as usize
    }

    /// The rank of a way.
    #[inline]
    pub fn rank(&self, way: usize) -> Rank {
        let differing = self.order ^ (way as u64 * NIBBLES);
        let zero = differing.wrapping_sub(NIBBLES) & !differing & (NIBBLES << 3);
        zero.trailing_zeros() / 4
    }

    /// The dirty ranks, a bit each.
    #[inline]
    pub fn dirty(&self) -> u32 {
        self.dirty.into()
    }

    /// The clean or invalid ranks within `window`, a bit each, at their rank.
    #[inline]
    pub fn clean(&self, window: Range<Rank>) -> u32 {
        !self.dirty() & ones(window)
    }

    /// The least recent of `ranks`, which are bits.
    #[inline]
    pub fn least_recent(ranks: u32) -> Option<Rank> {
        ranks.checked_ilog2()
    }

    /// Makes `rank` the most recent of its window, which begins at `top`; it becomes dirty with `dirty`.
    #[inline]
    pub(super) fn promote(&mut self, rank: Rank, top: Rank, dirty: bool) {
        let way = self.way(rank) as u64;
        let moved = (u64::MAX >> (60 - 4 * rank)) & (u64::MAX << (4 * top));
        self.order = (self.order & !moved) | (((self.order & moved) << 4) & moved) | (way << (4 * top));
        let moved = ones(top..rank + 1) as u16;
        let own = (self.dirty >> rank & 1) | u16::from(dirty);
        self.dirty = (self.dirty & !moved) | ((self.dirty << 1) & moved & !(1 << top)) | (own << top);
    }

    /// Puts a clean line with hash `print` in the place of what is at `rank`.
    #[inline]
    pub(super) fn replace(&mut self, rank: Rank, print: u16) {
        self.prints[self.way(rank)] = print;
        self.dirty &= !(1 << rank);
    }
}

/// Bits of a range of ranks.
#[inline]
pub fn ones(ranks: Range<Rank>) -> u32 {
    ((1_u32 << ranks.end) - 1) & (u32::MAX << ranks.start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ways(set: &Set) -> Vec<usize> {
        (0..16).map(|rank| set.way(rank)).collect()
    }

    proptest! {
        /// Invariants 1 and 3: it moves as a list does.
        #[test]
        fn recency_moves_as_in_a_list(moves in proptest::collection::vec((0_u32..4, 0_u32..4, any::<bool>()), 0..60)) {
            let (mut set, mut list) = (Set::EMPTY, (0..16).map(|way| (way, false)).collect::<Vec<_>>());
            for (window, within, dirty) in moves {
                let (top, rank) = (window * 4, window * 4 + within);
                set.promote(rank, top, dirty);
                let (way, was) = list.remove(rank as usize);
                list.insert(top as usize, (way, was || dirty));
                prop_assert_eq!(ways(&set), list.iter().map(|one| one.0).collect::<Vec<_>>());
                let bits = list.iter().enumerate().map(|(rank, one)| u32::from(one.1) << rank).sum::<u32>();
                prop_assert_eq!(set.dirty(), bits);
                prop_assert!((0..16).all(|rank| set.rank(set.way(rank)) == rank));
            }
        }
    }

    #[test]
    fn prints_are_compared_way_by_way() {
        let mut set = Set::EMPTY;
        set.replace(3, 77);
        set.replace(15, 77);
        assert_eq!(set.matches(77), 1 << 3 | 1 << 15);
        assert_eq!(set.matches(0), 0xffff & !(1 << 3 | 1 << 15));
        assert_eq!(Set::least_recent(set.clean(0..16)), Some(15));
        assert_eq!(Set::least_recent(0), None);
    }
}
