//! What a file system looks like in the pool: bytes to values and back.

pub mod append_checksum;
pub mod attr;
pub mod inode;
pub mod layout;
pub(crate) mod leaf;
pub mod noted_times;
pub(crate) mod shape;
pub(crate) mod word;
