//! One set of a cache: which line is in which way, how recently each was used, which are dirty.
//!
//! Invariants of both kinds, [`NarrowSet`] and [`WideSet`]:
//!
//! 1. The order of recency is a permutation of the ways; ranks beyond the ways are not touched.
//! 2. A way that was never filled is clean, and less recent than all filled ones of its window; so "the least recent
//!    clean way" is an invalid one as long as there is one.
//! 3. A window (all ranks, or those of one partition) keeps its ways: recency moves within it only.

mod narrow_set;
#[cfg(test)]
mod tests;
mod vector_compare;
mod wide_set;

use std::ops::Range;

pub use narrow_set::NarrowSet;
pub(super) use vector_compare::{equal, with_vectors};
pub use wide_set::WideSet;

/// The place of a way in the order of recency: 0 is the most recent.
pub type Rank = u32;

/// One set, as a policy sees it.
pub trait Set: Clone + Send {
    /// The most ways that it may have.
    const WAYS: usize;

    /// Nothing is in it.
    const EMPTY: Self;

    /// The way of a rank.
    fn way(&self, rank: Rank) -> usize;

    /// The rank of a way.
    fn rank(&self, way: usize) -> Rank;

    /// The dirty ranks, a bit each.
    fn dirty(&self) -> u64;

    /// The ways whose line has this hash, a bit each. Whether it is that line their tags tell.
    fn matches(&self, print: u16) -> u64;

    /// Makes `rank` the most recent of its window, which begins at `top`; it becomes dirty with `dirty`.
    fn promote(&mut self, rank: Rank, top: Rank, dirty: bool);

    /// Puts a clean line with hash `print` in the place of what is at `rank`.
    fn replace(&mut self, rank: Rank, print: u16);

    /// The clean or invalid ranks within `window`, a bit each, at their rank.
    #[inline]
    fn clean(&self, window: Range<Rank>) -> u64 {
        !self.dirty() & ones(window)
    }
}

/// The least recent of `ranks`, which are bits.
#[inline]
pub fn least_recent(ranks: u64) -> Option<Rank> {
    ranks.checked_ilog2()
}

/// Bits of a range of ranks.
#[inline]
pub fn ones(ranks: Range<Rank>) -> u64 {
    let below = |end: Rank| if end == 0 { 0 } else { u64::MAX >> (64 - end) };
    below(ranks.end) & !below(ranks.start)
}
