//! serve
pub mod attach;
mod host_clock;
pub mod mount;
pub mod nbd;
pub mod nbd_client;
mod steady;

pub use host_clock::HostClock;
