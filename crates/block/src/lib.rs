//! The protected block device: a [`Disk`](ferrite_disk::Disk) over a tag of a pool (pmbd.txt).
//!
//! Requests are served in the caller's thread and copied once. A sector is never torn: a block is written to free
//! space, made durable, and then one 8-byte word of the map names it. `in_place` overwrites instead. A disk made with
//! checksums finds damaged data; `verify` finds stores that do not arrive; [`Buffered`] holds writes back in DRAM.

mod buffered;
mod checked;
mod checksum;
mod dirty;
mod disk;
mod free;
mod loans;
mod lookup;
mod map;
mod options;
mod publish;
mod room;
mod shape;
mod spare;
mod stages;
mod stash;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use buffered::{BufferOptions, Buffered, DrainStep, Syncers};
pub use disk::BlockDisk;
pub use options::DiskOptions;
pub use shape::{BLOCK, DISK_BYTES_MAX, DiskShape, DiskSpec, create, create_watched, remove, resize};
pub use stages::{DiskStage, StageCount, StageTotals, Stages};
pub use walk::DiskOwner;
