//! The time of requests by stage, counted as the original driver counted it (pmbd.txt section IV).
//!
//! The memory opens and closes guards, flushes lines and emulates a speed, so [`DiskStage::Copy`] and
//! [`DiskStage::Fence`] include that time. Stages are counted only if [`crate::DiskOptions::stages`] asks for it, and
//! then no write takes the short path.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::shard::{SHARDS, own_shard};
use ferrite_memory::{Memory, Scheme, forward_memory};
use serde::{Deserialize, Serialize};

/// A part of the work on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskStage {
    /// The whole request, of any kind. The other stages are parts of it.
    Total,
    /// Finding free blocks, [`DiskStage::WaitForPins`] included.
    FindSpace,
    /// Waiting for other writers at the same blocks, and for a backup.
    Lock,
    /// Moving data to or from the medium, with the guard's window and the flushing of lines.
    Copy,
    /// Waiting until data and map words are in the persistence domain.
    Fence,
    /// Looking up, writing and showing map words.
    Map,
    /// Computing and comparing checksums.
    Checksum,
    /// Reading back what was written.
    Verify,
    /// Moving data to or from a buffer in DRAM.
    Buffer,
    /// Waiting until no reader can still copy from freed blocks.
    WaitForPins,
}

const STAGES: usize = 10;

/// The count of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCount {
    /// Number of times the stage was passed.
    pub count: u64,
    /// Cycles spent in the stage, by the counter in [`crate::DiskOptions::stages`].
    pub cycles: u64,
}

/// The counts of all stages. While requests run, each count is right, and their sum may lag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTotals {
    /// See [`DiskStage::Total`].
    pub total: StageCount,
    /// See [`DiskStage::FindSpace`].
    pub find_space: StageCount,
    /// See [`DiskStage::Lock`].
    pub lock: StageCount,
    /// See [`DiskStage::Copy`].
    pub copy: StageCount,
    /// See [`DiskStage::Fence`].
    pub fence: StageCount,
    /// See [`DiskStage::Map`].
    pub map: StageCount,
    /// See [`DiskStage::Checksum`].
    pub checksum: StageCount,
    /// See [`DiskStage::Verify`].
    pub verify: StageCount,
    /// See [`DiskStage::Buffer`].
    pub buffer: StageCount,
    /// See [`DiskStage::WaitForPins`].
    pub wait_for_pins: StageCount,
}

impl StageTotals {
    /// Every stage with its name, in the order of a report.
    pub fn rows(&self) -> [(&'static str, StageCount); STAGES] {
        [
            ("total", self.total),
            ("find space", self.find_space),
            ("lock", self.lock),
            ("copy", self.copy),
            ("fence", self.fence),
            ("map", self.map),
            ("checksum", self.checksum),
            ("verify", self.verify),
            ("buffer", self.buffer),
            ("wait for pins", self.wait_for_pins),
        ]
    }

    fn of(stage: impl Fn(usize) -> StageCount) -> Self {
        Self {
            total: stage(DiskStage::Total as usize),
            find_space: stage(DiskStage::FindSpace as usize),
            lock: stage(DiskStage::Lock as usize),
            copy: stage(DiskStage::Copy as usize),
            fence: stage(DiskStage::Fence as usize),
            map: stage(DiskStage::Map as usize),
            checksum: stage(DiskStage::Checksum as usize),
            verify: stage(DiskStage::Verify as usize),
            buffer: stage(DiskStage::Buffer as usize),
            wait_for_pins: stage(DiskStage::WaitForPins as usize),
        }
    }
}

#[derive(Default)]
struct StageCounter {
    count: AtomicU64,
    cycles: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct StageShard([StageCounter; STAGES]);

/// The counters of one disk.
pub struct Stages {
    cycles: fn() -> u64,
    shards: [StageShard; SHARDS],
}

impl Stages {
    /// Makes counters at zero. `cycles` reads a counter of cycles.
    pub fn new(cycles: fn() -> u64) -> Self {
        Self { cycles, shards: Default::default() }
    }

    /// Returns the counts so far.
    pub fn totals(&self) -> StageTotals {
        let sum =
            |of: &dyn Fn(&StageShard) -> &AtomicU64| self.shards.iter().map(|it| of(it).load(Ordering::Relaxed)).sum();
        StageTotals::of(|stage| StageCount {
            count: sum(&|shard| &shard.0[stage].count),
            cycles: sum(&|shard| &shard.0[stage].cycles),
        })
    }

    fn add(&self, stage: DiskStage, cycles: u64) {
        let counters = &self.shards[own_shard()].0[stage as usize];
        counters.count.fetch_add(1, Ordering::Relaxed);
        counters.cycles.fetch_add(cycles, Ordering::Relaxed);
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals().fmt(f)
    }
}

/// Counts one stage from its start until it is dropped.
#[must_use = "the stage ends when the timer is dropped"]
pub(crate) struct StageTimer<'stages> {
    stages: Option<&'stages Stages>,
    stage: DiskStage,
    start: u64,
}

impl<'stages> StageTimer<'stages> {
    /// Starts to count `stage`, or nothing if there are no `stages` to count in.
    #[inline]
    pub fn start(stages: Option<&'stages Stages>, stage: DiskStage) -> Self {
        Self { stages, stage, start: stages.map_or(0, |stages| (stages.cycles)()) }
    }
}

impl Drop for StageTimer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(stages) = self.stages {
            stages.add(self.stage, (stages.cycles)().wrapping_sub(self.start));
        }
    }
}

/// The memory of a disk whose stages are counted: each copy is a [`DiskStage::Copy`], each fence a [`DiskStage::Fence`].
pub(crate) struct StageMemory {
    pub memory: Arc<dyn Memory>,
    pub stages: Arc<Stages>,
}

impl StageMemory {
    fn count(&self, stage: DiskStage) -> StageTimer<'_> {
        StageTimer::start(Some(&self.stages), stage)
    }
}

impl Memory for StageMemory {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, zero, expect_store, load_word, load_words, store_word, store_words, flush,
        reserve, release, share, lend
    );

    fn load(&self, at: u64, into: &mut [u8]) {
        let _copy = self.count(DiskStage::Copy);
        self.memory.load(at, into);
    }

    fn load_summed(&self, at: u64, into: &mut [u8]) -> Option<u32> {
        let _copy = self.count(DiskStage::Copy);
        self.memory.load_summed(at, into)
    }

    fn load_hole(&self, into: &mut [u8]) {
        let _copy = self.count(DiskStage::Copy);
        self.memory.load_hole(into);
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        let _copy = self.count(DiskStage::Copy);
        self.memory.store(at, from, how);
    }

    fn fence(&self) {
        let _fence = self.count(DiskStage::Fence);
        self.memory.fence();
    }

    fn barrier(&self) -> ferrite_memory::Result<()> {
        let _fence = self.count(DiskStage::Fence);
        self.memory.barrier()
    }
}

#[cfg(test)]
mod tests;
