//! The orders to a program with a region, and what it measures.

use std::path::PathBuf;

use ferrite_guest::GuestCounts;
use serde::{Deserialize, Serialize};

use super::region_load::LoadShape;

/// The kind of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionKind {
    /// A guest, full-virtual: the program's stores go to frames.
    Full,
    /// A guest, para-virtual: the program's stores go to DRAM, and barriers make them durable.
    Para,
    /// A mapped file in memory, whose stores are durable at a fence.
    Bare,
    /// A mapped file on a disk, whose stores are durable at `msync`.
    FileSync,
}

/// A region to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegionSetup {
    /// The kind.
    pub kind: RegionKind,
    /// The pool of a guest, or the file to map.
    pub path: PathBuf,
    /// The disk of a guest.
    pub disk: PathBuf,
    /// The name of a guest.
    pub name: String,
    /// Another process owns the pool, and lends the guest.
    pub is_lent: bool,
    /// The bytes of the region.
    pub size: u64,
    /// How many times as long as on DRAM stores to persistent memory take.
    pub write_times: f64,
    /// Pages leave in batches with one flush each.
    pub has_batches: bool,
    /// Displaced pages stay in their frames as copies.
    pub keeps_copies: bool,
    /// The load.
    pub load: LoadShape,
}

/// An order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RegionOrder {
    /// Opens a region. Its nanoseconds are those of opening the pool and the region.
    Open(RegionSetup),
    /// Writes each file once.
    Fill,
    /// Runs the load for so many nanoseconds at least.
    Run {
        /// The nanoseconds.
        nanos: u64,
        /// The seed of the choices of files.
        seed: u64,
    },
    /// Makes 4 KiB at a time durable, for so many nanoseconds at least.
    Update {
        /// The nanoseconds.
        nanos: u64,
    },
    /// Takes all pages of a guest away from the program, as the paper's crash does.
    Unmap,
}

/// What an order measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RegionFigures {
    /// Bytes that the program loaded and stored.
    pub moved_bytes: u64,
    /// Bytes that the program stored.
    pub stored_bytes: u64,
    /// Steps of the load, or updates.
    pub steps: u64,
    /// Nanoseconds that the order took.
    pub nanos: u64,
    /// The last step of the load, as the region has it.
    pub last_step: u64,
    /// The counts of a guest since it was opened.
    pub counts: Option<GuestCounts>,
}

impl RegionFigures {
    /// Returns the MB/s that the program loaded and stored.
    pub fn rate(&self) -> f64 {
        self.moved_bytes as f64 * 1e3 / self.nanos.max(1) as f64
    }

    /// Returns the microseconds of a step.
    pub fn step_us(&self) -> f64 {
        self.nanos as f64 / 1e3 / self.steps.max(1) as f64
    }

    /// Returns the bytes written to the disk of a guest since it was opened.
    pub fn disk_written_bytes(&self) -> u64 {
        self.counts.map_or(0, |counts| counts.disk_written_bytes)
    }
}
