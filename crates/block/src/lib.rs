//! The protected block device: a [`Disk`](ferrite_medium::Disk) over a tag of a pool (pmbd.txt).
//!
//! Requests are served in the caller's thread and copied once. A sector is never torn: a block is written to free
//! space, made durable, and then one 8-byte word of the map names it. `in_place` overwrites instead.

mod dirty;
mod disk;
mod free;
mod gate;
mod map;
mod shape;
mod stash;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use disk::{BlockDisk, DiskOptions};
pub use map::Entry;
pub use shape::{BLOCK, DISK_BYTES_MAX, DiskSpec, Shape, create, remove, resize};
pub use walk::DiskOwner;
