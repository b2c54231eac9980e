//! A set of up to 64 ways: like [`NarrowSet`](super::NarrowSet), with whole bytes for the order.

use super::vector_compare::equal;
use super::{Rank, Set, ones};

/// A set of up to 64 ways.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct WideSet {
    /// A hash of the line in each way.
    prints: [u16; 64],
    /// The ways, from most to least recently used.
    order: [u8; 64],
    /// The dirty ranks, a bit each.
    dirty: u64,
}

/// Way r has rank r.
const UNUSED: [u8; 64] = {
    let (mut order, mut way) = ([0; 64], 0);
    while way < 64 {
        order[way] = way as u8;
        way += 1;
    }
    order
};

impl Set for WideSet {
    const WAYS: usize = 64;

    const EMPTY: Self = Self { prints: [0; 64], order: UNUSED, dirty: 0 };

    #[inline]
    fn way(&self, rank: Rank) -> usize {
        self.order[rank as usize].into()
    }

    #[inline]
    fn rank(&self, way: usize) -> Rank {
        self.order.iter().position(|here| usize::from(*here) == way).unwrap_or(0) as Rank
    }

    #[inline]
    fn dirty(&self) -> u64 {
        self.dirty
    }

    #[inline]
    fn matches(&self, print: u16) -> u64 {
        equal(&self.prints, print)
    }

    #[inline]
    fn promote(&mut self, rank: Rank, top: Rank, dirty: bool) {
        let way = self.order[rank as usize];
        self.order.copy_within(top as usize..rank as usize, top as usize + 1);
        self.order[top as usize] = way;
        let moved = ones(top..rank + 1);
        let own = (self.dirty >> rank & 1) | u64::from(dirty);
        self.dirty = (self.dirty & !moved) | ((self.dirty << 1) & moved & !(1 << top)) | (own << top);
    }

    #[inline]
    fn replace(&mut self, rank: Rank, print: u16) {
        self.prints[self.way(rank)] = print;
        self.dirty &= !(1 << rank);
    }
}
