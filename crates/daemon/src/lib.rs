//! What `ferrite up` adds to a pool's owner: disks over NBD and as `/dev` nodes, and mounted file systems.
//!
//! ```text
//!   NBD client   /dev node   program
//!        |           |          | FUSE
//!   disks ----- disks/nodes   filesystems      RunningServices of one PoolOwner
//!        |           |          |
//!   block::BlockDisk, cache   fs::FileSystem
//! ```

pub mod disks;
pub mod filesystems;
pub mod lacks;
mod member_opener;
pub mod metrics_server;
pub mod mounts;
mod services;
mod tag_names;

pub use services::{caches, disks, filesystems, registry};
