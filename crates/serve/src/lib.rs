//! serve
pub mod attach;
mod host_clock;
mod kernel_device;
pub mod mount;
pub mod nbd;
pub mod nbd_client;
mod steady;

pub use host_clock::HostClock;
pub use kernel_device::{FUSE, KernelDevice, LOOP};
