//! Readers of files that hold no lock, over plain memory.

pub(crate) mod append_bytes;
pub(crate) mod hints;
pub(crate) mod index_reader;
pub(crate) mod inode_snapshot;
pub(crate) mod superpage_cache;
pub(crate) mod version;
