//! What a file system looks like in the pool: bytes to values and back.

pub(crate) mod append_checksum;
pub(crate) mod attr;
pub(crate) mod inode;
pub(crate) mod layout;
pub(crate) mod leaf;
pub(crate) mod shape;
pub(crate) mod word;
