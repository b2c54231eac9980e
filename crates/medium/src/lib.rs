//! Bytes that persist, and sectors that persist: the two waists everything in Ferrite rests on.
//!
//! [`Memory`] is what persistent memory is: load, store, flush, fence, barrier. [`Disk`] is what every
//! block-shaped thing is: read, write, flush, trim. Services are written against these two traits alone.

mod area;
mod beacon;
mod byte_count;
pub mod copy;
mod cpu;
mod crc;
mod delay_disk;
mod disk;
mod disk_ref;
mod error;
mod error_disk;
pub mod fault;
mod file_disk;
mod fletcher;
mod forward;
mod guard;
mod latch;
mod lent;
mod mapped;
mod memory;
mod memory_ref;
pub mod mix;
mod pace;
mod paced;
mod pin;
mod place_socket;
pub mod process;
mod provenance;
mod raced;
mod ram_disk;
mod read_only_disk;
mod scheme;
mod settling;
mod shard;
mod sim_disk;
mod sim_hdd;
mod sim_ssd;
mod span;
mod stamp;
mod stats_disk;
mod survival;
mod trace_disk;
mod words;
mod worn;
#[cfg(test)]
mod wrapper_tests;

pub use beacon::Beacon;
pub use byte_count::ByteCount;
pub use cpu::{Cpu, LineFlush, StreamWidth};
pub use crc::{crc32, crc32_of_words};
pub use delay_disk::{Delay, DelayDisk};
pub use disk::{Access, Completion, Disk, Geometry, Op, Request, Run, Zeroing};
pub use error::{Error, Result};
pub use error_disk::{ErrorDisk, Trigger};
pub use file_disk::{FileDisk, FileDiskOptions};
pub use fletcher::Fletcher;
pub use guard::Guard;
pub use latch::{Latch, LatchGuard, RawLatch};
pub use lent::{Borrower, Lent};
pub use mapped::{Backing, MapOptions, Mapped, make_pool_file, own_storage, set_len};
pub use memory::{Memory, Shared};
pub use pace::{Pace, Speed, Ticks, Tsc};
pub use paced::Paced;
pub use pin::{
    Foreign, ForeignPin, Pin, barrier_abroad, end_foreign_pin, end_own_pin, forget_other_threads, is_pinned,
    order_loads, pin, spin_until, wait_for_pins, wait_for_pins_until,
};
pub use place_socket::place_socket;
pub use provenance::unescaped;
pub use raced::Raced;
pub use ram_disk::RamDisk;
pub use read_only_disk::ReadOnlyDisk;
pub use scheme::Scheme;
pub use sim_disk::{Clock, SimDisk, VirtualClock, WriteCache};
pub use sim_hdd::{HddDisk, HddProfile};
pub use sim_ssd::{SsdDisk, SsdProfile};
pub use span::Span;
pub use stamp::stamp_ns;
pub use stats_disk::{DiskStats, StatsDisk};
pub use survival::{Claim, Survival, Survives};
pub use trace_disk::{Trace, TraceDisk, TraceFormat};
pub use words::{SHARED_WORDS_LINK, SharedWords};
pub use worn::{Tally, Wear, WearUnit, Worn, WornPage};
