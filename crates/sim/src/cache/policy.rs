//! Replacement policies. A policy is one small file with one implementation of [`Policy`].

mod lru;
mod partitioned;
mod protect;
mod worth;

pub use lru::Lru;
pub use partitioned::Partitioned;
pub use protect::Protect;
pub use worth::Worth;

use super::set::{Rank, Set};

/// An access to a line that is not in its set.
#[derive(Clone, Copy, Debug)]
pub struct LineMiss {
    /// The line: the address divided by the line size.
    pub line: u64,
    /// A hash of the instruction that reads, or stored last.
    pub signature: u8,
    /// The bits of the line that do not choose the set.
    pub tag: u64,
    /// The index of the set in the whole cache.
    pub set: u32,
    /// True for a write: a whole line that the level above wrote back.
    pub is_write: bool,
}

/// An access to a line that is in its set.
#[derive(Clone, Copy, Debug)]
pub struct LineHit {
    /// The line: the address divided by the line size.
    pub line: u64,
    /// A hash of the instruction that reads, or stored last.
    pub signature: u8,
    /// The index of the set in the whole cache.
    pub set: u32,
    /// The rank of the line before it became the most recent of its window.
    pub rank: Rank,
    /// The way of the line.
    pub way: usize,
    /// True for a write.
    pub is_write: bool,
    /// True if the line was dirty before.
    pub was_dirty: bool,
}

/// A replacement policy: chooses the victim of a set for a new line.
///
/// A cache is simulated in [`BANKS`](super::BANKS) banks, each with a policy of its own: set `s` is in bank `s %
/// BANKS`. So a policy learns over the sets of a bank, as in a banked cache.
///
/// A set has as many ways as the cache's [`CacheShape`](super::CacheShape) says, and ranks from 0 to below them. A
/// policy that needs the number of ways is constructed with it, as [`Lru`] is.
pub trait Policy: Send {
    /// Returns the rank of the victim, below the ways of the cache: [`Bank`](super::Bank) panics otherwise. An unfilled
    /// way is clean and less recent than the filled ways of its window.
    fn victim<S: Set>(&mut self, set: &S, miss: LineMiss) -> Rank;

    /// Returns how many ranks form a window, within which recency is kept; `None` if a set is one window. The number is
    /// constant and divides the ways of the cache ([`Bank::of`](super::Bank::of) panics otherwise).
    #[inline]
    fn window(&self) -> Option<u32> {
        None
    }

    /// Notes the use of a line in the set, which is already the most recent of its window.
    #[inline]
    fn hit(&mut self, hit: LineHit) {
        let _ = hit;
    }

    /// Notes that a line was brought into `way`, which is already the most recent of its window.
    #[inline]
    fn filled(&mut self, way: usize, miss: LineMiss) {
        let _ = (way, miss);
    }

    /// Returns the region, of sixteen, in which accesses to `set` are counted; `None` to count by window.
    #[inline]
    fn region(&self, set: u32) -> Option<usize> {
        let _ = set;
        None
    }
}
