//! Protect-N: beyond the N most recent lines, clean lines are replaced first (2.2.1).

use super::{LineMiss, Policy};
use crate::cache::set::{Rank, Set, least_recent};

/// Replaces the least recent clean line that is not among the `protected` most recent lines. If no such line exists,
/// the least recent line is replaced. Protect-0 spares dirty lines most, and with all ways protected the policy is LRU.
#[derive(Clone, Copy, Debug)]
pub struct Protect {
    /// Ways of a set.
    pub ways: u32,
    /// Most recent ways that are not replaced for being clean.
    pub protected: u32,
}

impl Policy for Protect {
    #[inline]
    fn victim<S: Set>(&mut self, set: &S, _: LineMiss) -> Rank {
        least_recent(set.clean(self.protected..self.ways)).unwrap_or(self.ways - 1)
    }
}
