//! One set of a cache: the line in each way, the order of recency, and the dirty ways.
//!
//! Invariants of both kinds, [`NarrowSet`] and [`WideSet`]:
//!
//! 1. The order of recency is a permutation of the ways; ranks beyond the ways are not touched.
//! 2. A way that was never filled is clean, and less recent than all filled ways of its window; so "the least recent
//!    clean way" is an unfilled one as long as one exists.
//! 3. A window (all ranks, or the ranks of one partition) keeps its ways: recency moves within it only.

mod narrow_set;
#[cfg(test)]
mod tests;
mod vector_compare;
mod wide_set;

use std::ops::Range;

pub use narrow_set::NarrowSet;
pub(super) use vector_compare::{equal, with_vectors};
pub use wide_set::WideSet;

/// The position of a way in the order of recency: 0 is the most recent.
pub type Rank = u32;

/// One set, as a policy sees it.
pub trait Set: Clone + Send {
    /// The most ways that the set may have.
    const WAYS: usize;

    /// An empty set.
    const EMPTY: Self;

    /// Returns the way of a rank.
    fn way(&self, rank: Rank) -> usize;

    /// Returns the rank of a way.
    fn rank(&self, way: usize) -> Rank;

    /// Returns the dirty ranks, a bit each.
    fn dirty(&self) -> u64;

    /// Returns the ways whose line has the hash `print`, a bit each. Their tags decide whether it is the same line.
    fn matches(&self, print: u16) -> u64;

    /// Makes `rank` the most recent of its window, which begins at `top`; with `dirty` the line becomes dirty.
    fn promote(&mut self, rank: Rank, top: Rank, dirty: bool);

    /// Replaces the line at `rank` by a clean line with the hash `print`.
    fn replace(&mut self, rank: Rank, print: u16);

    /// Returns the clean or unfilled ranks within `window`, a bit each, at their rank.
    #[inline]
    fn clean(&self, window: Range<Rank>) -> u64 {
        !self.dirty() & ones(window)
    }
}

/// Returns the least recent of `ranks`, which are bits.
#[inline]
pub fn least_recent(ranks: u64) -> Option<Rank> {
    ranks.checked_ilog2()
}

/// Returns the bits of a range of ranks.
#[inline]
pub fn ones(ranks: Range<Rank>) -> u64 {
    let below = |end: Rank| if end == 0 { 0 } else { u64::MAX >> (64 - end) };
    below(ranks.end) & !below(ranks.start)
}
