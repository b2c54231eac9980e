//! What a node of a disk and a mounted file system share: mounting by `/dev/fuse`, the kernel's list of mounts, and a FUSE
//! file system whose threads outlive a panic.

mod kernel_device;
mod mounting;
mod mounts;
mod steady;

pub use kernel_device::{FUSE, KernelDevice, LOOP};
pub use mounting::{How, cut_off, is_root, mount, unmount, unmount_lazily, unmount_unused};
pub use mounts::{Device, Mount, block_device, device_named, device_number, may_be_a_device};
pub use steady::{Steady, steadily};
