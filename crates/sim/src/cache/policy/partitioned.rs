//! The partitioned cache: the low bits of the tag choose the preferred partition of a set, and replacements go where
//! clean lines are (2.2.2).

use super::{LineMiss, Policy};
use crate::cache::set::{Rank, Set, least_recent};

/// Protect-N within each partition of a set. A miss replaces an unprotected clean way of the partition that its tag
/// prefers. If that partition has no such way, the partition with the most clean ways among those that have one is
/// chosen, the first of equals. If no partition has one, the least recent way of the preferred partition is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Partitioned {
    /// Partitions of a set, a power of two.
    pub partitions: u32,
    /// Ways of a partition.
    pub ways: u32,
    /// Most recent ways of a partition that are not replaced for being clean.
    pub protected: u32,
}

impl Partitioned {
    fn ranks(&self, partition: u32) -> std::ops::Range<Rank> {
        partition * self.ways..(partition + 1) * self.ways
    }

    #[inline]
    fn unprotected_clean(&self, set: &impl Set, partition: u32) -> Option<Rank> {
        let ranks = self.ranks(partition);
        least_recent(set.clean(ranks.start + self.protected..ranks.end))
    }

    fn elsewhere(&self, set: &impl Set) -> Option<Rank> {
        let clean = |partition| set.clean(self.ranks(partition)).count_ones();
        let ready = (0..self.partitions).filter(|partition| self.unprotected_clean(set, *partition).is_some());
        let most = ready.reduce(|best, other| if clean(other) > clean(best) { other } else { best });
        most.and_then(|partition| self.unprotected_clean(set, partition))
    }
}

impl Policy for Partitioned {
    #[inline]
    fn victim<S: Set>(&mut self, set: &S, miss: LineMiss) -> Rank {
        let preferred = miss.tag as u32 & (self.partitions - 1);
        self.unprotected_clean(set, preferred).or_else(|| self.elsewhere(set)).unwrap_or(self.ranks(preferred).end - 1)
    }

    #[inline]
    fn window(&self) -> Option<u32> {
        Some(self.ways)
    }
}
