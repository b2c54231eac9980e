//! Protect-N: beyond the most recent lines, clean ones leave first (2.2.1).

use super::{LineMiss, Policy};
use crate::cache::set::{Rank, Set, least_recent};

/// The least recent clean line leaves, but none of the `protected` most recent; where there is none, the least recent
/// line. Protect-0 spares dirty lines most, and with all ways protected it is LRU.
#[derive(Clone, Copy, Debug)]
pub struct Protect {
    /// Ways of a set.
    pub ways: u32,
    /// Of them, the most recent ones that do not leave for being clean.
    pub protected: u32,
}

impl Policy for Protect {
    #[inline]
    fn victim<S: Set>(&mut self, set: &S, _: LineMiss) -> Rank {
        least_recent(set.clean(self.protected..self.ways)).unwrap_or(self.ways - 1)
    }
}
