//! A set of up to 16 ways, in one line of the simulating machine's cache.
//!
//! ```text
//!  prints   16 x u16   a hash of the line in each way: sixteen are compared at once
//!  order    16 x u4    the ways, from most to least recently used: nibble r is the way of rank r
//!  dirty    16 x u1    by rank
//! ```

use super::vector_compare::equal;
use super::{Rank, Set, ones};

/// A set of up to 16 ways.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct NarrowSet {
    prints: [u16; 16],
    order: u64,
    dirty: u16,
}

/// Way r has rank r.
const UNUSED: u64 = 0xfedc_ba98_7654_3210;

const NIBBLES: u64 = 0x1111_1111_1111_1111;

impl Set for NarrowSet {
    const WAYS: usize = 16;

    const EMPTY: Self = Self { prints: [0; 16], order: UNUSED, dirty: 0 };

    #[inline]
    fn way(&self, rank: Rank) -> usize {
        (self.order >> (4 * rank) & 0xf) as usize
    }

    #[inline]
    fn rank(&self, way: usize) -> Rank {
        let differing = self.order ^ (way as u64 * NIBBLES);
        let zero = differing.wrapping_sub(NIBBLES) & !differing & (NIBBLES << 3);
        zero.trailing_zeros() / 4
    }

    #[inline]
    fn dirty(&self) -> u64 {
        self.dirty.into()
    }

    #[inline]
    fn matches(&self, print: u16) -> u64 {
        equal(&self.prints, print)
    }

    #[inline]
    fn promote(&mut self, rank: Rank, top: Rank, dirty: bool) {
        let way = self.way(rank) as u64;
        let moved = (u64::MAX >> (60 - 4 * rank)) & (u64::MAX << (4 * top));
        self.order = (self.order & !moved) | (((self.order & moved) << 4) & moved) | (way << (4 * top));
        let moved = ones(top..rank + 1) as u16;
        let own = (self.dirty >> rank & 1) | u16::from(dirty);
        self.dirty = (self.dirty & !moved) | ((self.dirty << 1) & moved & !(1 << top)) | (own << top);
    }

    #[inline]
    fn replace(&mut self, rank: Rank, print: u16) {
        self.prints[self.way(rank)] = print;
        self.dirty &= !(1 << rank);
    }
}
