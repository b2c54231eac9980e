//! Readers of files that hold no lock, over plain memory.

pub(crate) mod append_check;
pub mod hints;
pub mod index_reader;
pub mod inode_snapshot;
pub mod superpage_cache;
pub mod version;
