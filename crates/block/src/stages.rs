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

/// Defines the stages: for each the variant, the field of the totals and the name in a report.
macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident $field:ident $name:literal,)*) => {
        /// A part of the work on a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DiskStage {
            $($(#[$doc])* $stage,)*
        }

        const STAGES: usize = [$($name),*].len();

        /// The counts of all stages. While requests run, each count is right, and their sum may lag.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct StageTotals {
            $($(#[$doc])* pub $field: StageCount,)*
        }

        impl StageTotals {
            /// Every stage with its name, in the order of a report.
            pub fn rows(&self) -> [(&'static str, StageCount); STAGES] {
                [$(($name, self.$field)),*]
            }

            fn of(count: impl Fn(DiskStage) -> StageCount) -> Self {
                Self { $($field: count(DiskStage::$stage)),* }
            }
        }
    };
}

stages! {
    /// The whole request, of any kind. The other stages are parts of it.
    Total total "total",
    /// Finding free blocks, [`DiskStage::WaitForPins`] included.
    FindSpace find_space "find space",
    /// Waiting for other writers at the same blocks, and for a backup.
    Lock lock "lock",
    /// Moving data to or from the medium, with the guard's window and the flushing of lines.
    Copy copy "copy",
    /// Waiting until data and map words are in the persistence domain.
    Fence fence "fence",
    /// Looking up, writing and showing map words.
    Map map "map",
    /// Computing and comparing checksums.
    Checksum checksum "checksum",
    /// Reading back what was written.
    Verify verify "verify",
    /// Moving data to or from a buffer in DRAM.
    Buffer buffer "buffer",
    /// Waiting until no reader can still copy from freed blocks.
    WaitForPins wait_for_pins "wait for pins",
}

/// The count of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCount {
    /// Number of times the stage was passed.
    pub count: u64,
    /// Cycles spent in the stage, by the counter in [`crate::DiskOptions::stages`].
    pub cycles: u64,
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
            count: sum(&|shard| &shard.0[stage as usize].count),
            cycles: sum(&|shard| &shard.0[stage as usize].cycles),
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
