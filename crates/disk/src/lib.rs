//! The second waist of Ferrite: [`Disk`], sectors that persist. A disk reads, writes, flushes and trims. This crate has
//! the trait, files as disks, disks that wrap another, and simulated drives.

mod delay_disk;
mod disk;
mod disk_ref;
mod fault_disk;
mod file_disk;
mod queue;
mod ram_disk;
mod read_only_disk;
mod ready_event;
mod sim_disk;
mod sim_hdd;
mod sim_ssd;
mod stats_disk;
#[cfg(test)]
mod tests;
mod thread_queue;
mod trace_disk;

pub use delay_disk::{Delay, DelayDisk};
pub use disk::{Access, Completion, Disk, Geometry, Op, Request, Run, Zeroing};
pub use fault_disk::{
    FaultAction, FaultChance, FaultCondition, FaultDisk, FaultError, FaultOp, FaultPlan, FaultPlanError, FaultRule,
    Faults,
};
pub use file_disk::{FileDisk, FileDiskOptions};
pub use queue::{LayeredQueue, NotedRequest, Queue, QueueLayer, Wait};
pub use ram_disk::RamDisk;
pub use read_only_disk::ReadOnlyDisk;
pub use ready_event::{Alarm, ReadyEvent};
pub use sim_disk::{Clock, SimDisk, VirtualClock, WriteCache};
pub use sim_hdd::{HddDisk, HddProfile};
pub use sim_ssd::{ReclaimWork, SsdDisk, SsdProfile, SsdTranslation};
pub use stats_disk::{COUNTED_OPS, DiskStats, StatsDisk};
pub use trace_disk::{Trace, TraceDisk, TraceFormat};
