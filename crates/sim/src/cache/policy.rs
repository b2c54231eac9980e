//! What is evicted. A policy is one small file with one implementation of [`Policy`].

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
    /// The line: its address in lines.
    pub line: u64,
    /// A hash of the instruction that reads, or stored last.
    pub signature: u8,
    /// The bits of it that do not choose the set.
    pub tag: u64,
    /// The set, in the whole cache.
    pub set: u32,
    /// Whether it is written: a whole line that the level above wrote back.
    pub is_write: bool,
}

/// An access to a line that is in its set.
#[derive(Clone, Copy, Debug)]
pub struct LineHit {
    /// The line: its address in lines.
    pub line: u64,
    /// A hash of the instruction that reads, or stored last.
    pub signature: u8,
    /// The set, in the whole cache.
    pub set: u32,
    /// Where the line was before it became the most recent of its window.
    pub rank: Rank,
    /// Its way.
    pub way: usize,
    /// Whether it is written.
    pub is_write: bool,
    /// Whether it was dirty before.
    pub was_dirty: bool,
}

/// Chooses what leaves a set for a new line.
///
/// A cache is simulated in [`BANKS`](super::BANKS) banks, each with a policy of its own: set `s` is in bank
/// `s % BANKS`. So what a policy learns over several sets it learns within a bank, as a banked cache would.
///
/// A set has as many ways as the cache's [`CacheShape`](super::Shape) says, and ranks from 0 to below them: a policy that
/// needs to know how many is made with them, as [`Lru`] is.
pub trait Policy: Send {
    /// The rank of what is to leave, below the ways of the cache: [`Bank`](super::Bank) panics at another. An unfilled
    /// way is clean and less recent than filled ones of its window.
    fn victim<S: Set>(&mut self, set: &S, miss: LineMiss) -> Rank;

    /// So many ranks keep their recency among themselves, always as many, which divide the ways of the cache
    /// ([`Bank::of`](super::Bank::of) panics where they do not); all of a set, if it does not say.
    #[inline]
    fn window(&self) -> Option<u32> {
        None
    }

    /// A line was used that is there. It is the most recent of its window already.
    #[inline]
    fn hit(&mut self, hit: LineHit) {
        let _ = hit;
    }

    /// A line was brought in, to `way`. It is the most recent of its window already.
    #[inline]
    fn filled(&mut self, way: usize, miss: LineMiss) {
        let _ = (way, miss);
    }

    /// In which of sixteen regions of the cache accesses to `set` are counted, if that is not by window.
    #[inline]
    fn region(&self, set: u32) -> Option<usize> {
        let _ = set;
        None
    }
}
