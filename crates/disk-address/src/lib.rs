//! From an address to a disk, and the clock that simulated drives run on.

mod host_clock;

pub use host_clock::HostClock;
