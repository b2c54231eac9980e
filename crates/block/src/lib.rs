//! The protected block device: a [`Disk`](ferrite_disk::Disk) over a tag of a pool (pmbd.txt).
//!
//! The caller's thread serves its requests and copies data once. No crash tears a sector: a write stores a block to
//! free space, makes it durable, and then names it by one 8-byte word of the map. The option `in_place` overwrites the
//! old block instead. A disk made with checksums finds damaged data, and `verify` finds stores that do not arrive.
//! [`Buffered`] holds writes back in DRAM.

mod buffered;
mod checked_read;
mod checksum;
mod dirty;
mod disk;
mod free;
mod loans;
mod lookup;
mod map;
mod map_flush;
mod options;
mod overwrite;
mod room;
mod shape;
mod spare;
mod stages;
mod stash;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod word_change;
mod write;

pub use buffered::{BufferOptions, Buffered, SyncerStep, Syncers};
pub use disk::BlockDisk;
pub use options::DiskOptions;
pub use shape::{BLOCK, DISK_BYTES_MAX, DiskShape, DiskSpec, create, create_watched, remove, resize};
pub use stages::{DiskStage, StageCount, StageTotals, Stages};
pub use walk::DiskOwner;
