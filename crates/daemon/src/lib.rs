//! What `ferrite up` adds to a pool's owner: disks over NBD and as `/dev` nodes, and mounted file systems.
//!
//! ```text
//!   NBD client   /dev node   program
//!        |           |          | FUSE
//!   disks ----- disks/nodes   filesystems      RunningServices of one PoolOwner
//!        |           |          |
//!      block::BlockDisk       fs::FileSystem
//! ```

pub mod disks;
pub mod filesystems;
pub mod lacks;
pub mod mounts;
mod services;
mod tag_names;

pub use services::{disks, filesystems, registry};
