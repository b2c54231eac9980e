//! The least recently used line leaves.

use super::{LineMiss, Policy};
use crate::cache::set::{Rank, Set};

/// Least recently used, with `ways` ways.
#[derive(Clone, Copy, Debug)]
pub struct Lru {
    /// Ways of a set.
    pub ways: u32,
}

impl Policy for Lru {
    #[inline]
    fn victim<S: Set>(&mut self, _: &S, _: LineMiss) -> Rank {
        self.ways - 1
    }
}
