//! The base of readers without a lock: the version of a lock, and the places of pages and inodes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The version of a lock, from which a lookup without that lock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockVersion(pub u64);

impl LockVersion {
    /// Odd, so no reader starts from it.
    pub const NONE: Self = Self(u64::MAX);

    /// Returns the word in the shared state while the next holder has the lock.
    pub(crate) fn locked(self) -> u64 {
        self.0 + 1
    }

    /// Returns the version after a lock whose word in the shared state is `locked`.
    pub(crate) fn after(locked: u64) -> Self {
        Self(locked + 1)
    }
}

/// The places of pages and inodes in the pool.
pub trait ChunkPlaces {
    /// Tells these places from others that this process has had.
    fn id(&self) -> StateId;

    /// Returns where `page` lies in the pool; `None` if there is no such page.
    fn place(&self, page: u64) -> Option<u64>;

    /// Returns where inode `number` lies in the pool; `None` if there is no such inode.
    fn inode_place(&self, number: u64) -> Option<u64>;
}

/// Identifies shared words that this process has mapped; no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateId(u64);

impl StateId {
    pub(crate) fn new() -> Self {
        static STATES: AtomicU64 = AtomicU64::new(1);
        Self(STATES.fetch_add(1, Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}
