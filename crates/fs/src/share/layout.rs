//! What the owner and its clients share: words in memory that both map, and requests of a client to the owner.

pub mod brief_wait;
pub mod lease_state;
pub mod mount_source;
pub mod request;
pub mod shared_state;
