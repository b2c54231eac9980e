//! From an address to a disk, and the clock that simulated drives run on.
//!
//! ```text
//!   text --DiskAddress::parse--> models (hdd-7200:, ftl-page:, ...) + place (a file, an NBD export, a disk in a pool)
//!   place --open_file, open_nbd, or the caller for a pool--> Disk --DiskAddress::with_models--> ModeledDisk
//! ```
//!
//! A disk in a pool is opened by the caller, because only a caller knows whether it owns the pool.

mod address;
mod aged_drive;
mod drive_model;
mod error;
mod faulty_disks;
mod host_clock;
mod opening;
#[cfg(test)]
mod tests;

pub use address::{ADDRESS_FORMS, DiskAddress, DiskPlace};
pub use aged_drive::{AGED_DRIVE_GRAMMAR, AgedDrive};
pub use drive_model::{CountedFlash, DriveModel, EXTRA_BLOCKS_MIN, ModeledDisk};
pub use error::{AddressError, Result};
pub use faulty_disks::{FaultyDisk, faulty_disks, set_fault_plan};
pub use host_clock::HostClock;
pub use opening::{make_file, open_file, open_member_file, open_nbd};
