//! Chunks, transactions, orphans and locks: the only part that allocates and commits.

pub(crate) mod bits;
pub(crate) mod change;
pub(crate) mod gate;
pub(crate) mod growth;
pub(crate) mod inode_map;
pub(crate) mod limbo;
pub(crate) mod locks;
pub(crate) mod orphans;
pub(crate) mod reclaim;
pub(crate) mod space;
