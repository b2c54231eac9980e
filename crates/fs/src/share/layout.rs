//! What the owner and its clients share: words, and requests.

pub(crate) mod lease_state;
pub(crate) mod mount_source;
pub(crate) mod request;
pub(crate) mod shared_state;
