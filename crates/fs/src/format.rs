//! The bytes of a file system in the pool, as values.

pub mod append_checksum;
pub mod attr;
pub mod inode;
pub mod layout;
pub(crate) mod leaf;
pub mod noted_times;
pub(crate) mod segment;
pub(crate) mod shape;
pub(crate) mod slot_table;
pub mod tier_policy;
pub(crate) mod word;
