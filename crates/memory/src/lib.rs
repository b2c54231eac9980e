//! The first waist of Ferrite: [`Memory`], bytes that persist. A memory loads, stores, flushes, fences and waits at a
//! barrier. Services are written against this trait and against `ferrite_disk::Disk` alone.

mod area;
mod byte_count;
pub mod copy;
mod cpu;
mod crc;
mod error;
pub mod fault;
mod fletcher;
mod forward;
mod guard;
mod host_sync;
mod latch;
mod latency_histogram;
mod liveness_word;
mod mapped;
mod memory;
pub mod mix;
mod mountinfo;
mod pace;
mod paced;
mod pin;
mod place_socket;
pub mod planted;
pub mod process;
mod provenance;
mod raced;
mod request_counters;
mod request_words;
mod scheme;
pub mod shard;
mod snapshot;
mod span;
mod stamp;
mod survival;
mod trap;
mod words;
mod worn;

pub use byte_count::ByteCount;
pub use cpu::{Cpu, LineFlush, StreamWidth};
pub use crc::{crc32, crc32_of_words};
pub use error::{Error, Result};
pub use fletcher::Fletcher;
pub use guard::Guard;
pub use host_sync::HostSync;
pub use latch::{Latch, LatchGuard, RawLatch};
pub use latency_histogram::LatencyCounts;
pub use liveness_word::LivenessWord;
pub use mapped::{Backing, MapOptions, Mapped, file_survival, make_pool_file, own_storage, set_len};
pub use memory::{Borrower, Lent, Memory, Shared};
pub use mountinfo::{MountLine, unescaped};
pub use pace::{Pace, Speed, Ticks, Tsc};
pub use paced::Paced;
pub use pin::{
    Foreign, ForeignPin, Pin, barrier_abroad, end_foreign_pin, end_own_pin, forget_other_threads, is_pinned,
    order_loads, pin, spin_until, wait_for_pins, wait_for_pins_until,
};
pub use place_socket::place_socket;
pub use raced::Raced;
pub use request_counters::{RequestCounters, RequestTotals};
pub use request_words::{REQUEST_WORDS, RequestTiming, RequestWords};
pub use scheme::Scheme;
pub use snapshot::{SnapshotInstant, SnapshotMemory};
pub use span::Span;
pub use stamp::{monotonic_ns, stamp_ns};
pub use survival::{Claim, Survival, Survives};
pub use trap::{RegionPlace, TrapFault, TrapRegion};
pub use words::{SHARED_WORDS_LINK, SharedWords};
pub use worn::{Tally, Wear, WearUnit, Worn, WornPage};
