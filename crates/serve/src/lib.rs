//! serve
pub mod attach;
mod host_clock;
pub mod nbd;

pub use host_clock::HostClock;
