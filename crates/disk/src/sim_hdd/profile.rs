//! What kinds of hard disk there are.

use crate::sim_disk::WriteCache;

/// The properties of a hard disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddProfile {
    /// Bytes that it holds. The disk on it starts at its outer end, and may be smaller; a larger one makes it larger.
    pub capacity_bytes: u64,
    /// Rotations a minute.
    pub rpm: u32,
    /// Transfer rate of the outermost tracks, in bytes a second.
    pub outer_bytes_per_s: u64,
    /// Transfer rate of the innermost tracks, in bytes a second.
    pub inner_bytes_per_s: u64,
    /// A seek to the next track.
    pub track_seek_ns: u64,
    /// A seek over a third of the stroke, the mean distance of two random places.
    pub average_seek_ns: u64,
    /// A seek from one end to the other.
    pub full_seek_ns: u64,
    /// How much longer a seek takes before a write, which must not miss its track.
    pub write_settle_ns: u64,
    /// From the arrival of a request until the drive acts on it.
    pub command_ns: u64,
    /// Rate between host and cache, in bytes a second.
    pub link_bytes_per_s: u64,
    /// Requests among which the head chooses; 1 takes them in order.
    pub queue_depth: usize,
    /// Where a write is when it completes.
    pub cache: WriteCache,
    /// Places for whose continuation the drive keeps what it has read; 0 for none.
    pub segments: usize,
    /// How far it reads ahead at each of them, in bytes.
    pub segment_bytes: u64,
}

impl HddProfile {
    /// The profile of that name: `hdd-7200`, `hdd-15000` or `hdd-5400`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "hdd-7200" => Some(Self::rpm_7200()),
            "hdd-15000" => Some(Self::rpm_15000()),
            "hdd-5400" => Some(Self::rpm_5400()),
            _ => None,
        }
    }

    /// A desktop and near-line drive of 1 TB as in PMBD's testbed, by what makers' data sheets of 2008 to 2010 say of
    /// that class: seeks of 8.5 ms (reads) and 9.5 ms (writes), about 115 MB/s outside and half of it inside.
    pub fn rpm_7200() -> Self {
        Self {
            capacity_bytes: 1_000_000_000_000,
            rpm: 7200,
            outer_bytes_per_s: 115_000_000,
            inner_bytes_per_s: 58_000_000,
            track_seek_ns: 800_000,
            average_seek_ns: 8_500_000,
            full_seek_ns: 17_000_000,
            write_settle_ns: 1_000_000,
            command_ns: 60_000,
            link_bytes_per_s: 300_000_000,
            queue_depth: 32,
            cache: WriteCache::Volatile(16 << 20),
            segments: 8,
            segment_bytes: 1 << 20,
        }
    }

    /// A server's drive of 300 GB: seeks of 3.4 and 3.9 ms, 200 MB/s outside. Its write cache is off, as servers ship.
    pub fn rpm_15000() -> Self {
        Self {
            capacity_bytes: 300_000_000_000,
            rpm: 15_000,
            outer_bytes_per_s: 200_000_000,
            inner_bytes_per_s: 120_000_000,
            track_seek_ns: 200_000,
            average_seek_ns: 3_400_000,
            full_seek_ns: 6_600_000,
            write_settle_ns: 500_000,
            command_ns: 40_000,
            link_bytes_per_s: 600_000_000,
            queue_depth: 128,
            cache: WriteCache::Off,
            ..Self::rpm_7200()
        }
    }

    /// A notebook's drive of 500 GB: seeks of 12 and 14 ms, 100 MB/s outside.
    pub fn rpm_5400() -> Self {
        Self {
            capacity_bytes: 500_000_000_000,
            rpm: 5400,
            outer_bytes_per_s: 100_000_000,
            inner_bytes_per_s: 50_000_000,
            track_seek_ns: 1_500_000,
            average_seek_ns: 12_000_000,
            full_seek_ns: 22_000_000,
            write_settle_ns: 2_000_000,
            cache: WriteCache::Volatile(8 << 20),
            ..Self::rpm_7200()
        }
    }

    /// The same drive with only so many bytes of the same tracks: a disk of that size reaches from end to end of it,
    /// so that a small experiment seeks as far as a large one.
    pub fn with_capacity(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }
}
