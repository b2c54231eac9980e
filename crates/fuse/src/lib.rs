//! Parts that disk nodes and mounted file systems share: mounting by `/dev/fuse`, the kernel's mountinfo list, and a
//! FUSE file system whose threads survive a panic, with counters of its requests.

mod backlog;
mod fuse_counters;
mod kernel_device;
mod mountinfo;
mod mounting;
mod panic_guard;

pub use backlog::widen_backlog;
pub use fuse_counters::{FuseCounters, FuseOperation, note_failed, note_moved};
pub use kernel_device::{FUSE, KernelDevice, LOOP};
pub use mountinfo::{Device, MountEntry, block_device, device_named, device_number, may_be_a_device};
pub use mounting::{
    MountSpec, RootKind, cut_off, has_administrator, is_root, may_mount, mount, unmount, unmount_lazily, unmount_unused,
};
pub use panic_guard::{PanicGuard, catch_panic};
