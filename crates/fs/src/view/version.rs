//! What a reader without a lock stands on: the version of a lock, and where pages and inodes lie.

use crate::view::hints::BoardId;

/// What a lookup without a lock starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub u64);

impl Version {
    /// Odd: nobody starts from it.
    pub const NONE: Self = Self(u64::MAX);

    /// What stands on the board while who comes next has the lock.
    pub fn locked(self) -> u64 {
        self.0 + 1
    }

    /// That of after a lock for which `locked` stands on the board.
    pub fn after(locked: u64) -> Self {
        Self(locked + 1)
    }
}

/// Where pages and inodes lie in the pool.
pub(crate) trait Places {
    /// Tells these places from others that this process has had.
    fn id(&self) -> BoardId;

    /// Returns where `page` lies in the pool; `None` if there is no such page.
    fn place(&self, page: u64) -> Option<u64>;

    /// Returns where inode `number` lies in the pool; `None` if there is none.
    fn inode_place(&self, number: u64) -> Option<u64>;
}
