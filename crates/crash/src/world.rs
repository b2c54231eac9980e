//! A memory and any number of disks that crash at one instant.
//!
//! ```text
//! event        0 store   1 fence   2 begin, disk 0   3 end, disk 0   4 store   5 flush, disk 0   6 fence
//! crash at 4   memory: durable up to 1        disk 0: its write is in the cache       neither knows of 4
//! ```
//!
//! - CW1. The memory's stores, flushes, fences, barriers and marks, and each disk's beginnings and ends of writes,
//!   trims and zeroings, and its flushes, have one order. A crash lies between two events, and the memory and every
//!   disk are of that instant.
//! - CW2. A power failure leaves any image of the memory (CP1-CP10) with any image of each disk (CL1, CL2): what is not
//!   durable is lost, kept or torn in one of them whatever happened to it in another.
//! - CW3. The death of a process leaves all visible bytes, and any part of the requests in flight. What was not durable
//!   still is not: of the memory, the process's non-temporal stores have left the processor, and all else waits for the
//!   next process to flush it; of a disk, the cache is as it was.
//! - CW4. A read, and a request that fails without a change, is no event.

use std::sync::Arc;

use crate::disk::LyingDisk;
use crate::memory::LyingMemory;
use crate::possible::Possible;
use crate::possible_disk::{DiskLanding, PossibleDisk};
use crate::seed::Seed;

/// A [`LyingMemory`] and [`LyingDisk`]s with one order of events, so that a crash finds all of them at one instant. The
/// events are recorded in the memory: [`crate::explore`] and [`crate::explore_kills`] of the memory explore the world.
pub struct World {
    memory: Arc<LyingMemory>,
    disks: Vec<Arc<LyingDisk>>,
}

impl World {
    /// Joins `memory` and `disks`, as they are, into one world. The exploration starts here. Disks have the numbers of
    /// their order, from 0.
    ///
    /// # Panics
    /// Panics if one of them is in a world already.
    pub fn new(memory: impl Into<Arc<LyingMemory>>, disks: impl IntoIterator<Item = LyingDisk>) -> Self {
        let memory = memory.into();
        let join = |disk: LyingDisk| {
            disk.record_in(&memory);
            Arc::new(disk)
        };
        let disks: Vec<_> = disks.into_iter().map(join).collect();
        assert_eq!(memory.possible().disks.len(), disks.len(), "a memory is in one world");
        Self { memory, disks }
    }

    /// Returns the memory. Its [`LyingMemory::mark`] and [`LyingMemory::forget_trace`] act on the whole world.
    pub fn memory(&self) -> &Arc<LyingMemory> {
        &self.memory
    }

    /// Returns disk `number`.
    pub fn disk(&self, number: usize) -> &Arc<LyingDisk> {
        &self.disks[number]
    }

    /// Returns the world that a power failure now leaves, by `seed`: for long runs. This world is not changed.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let Possible { disks, .. } = self.memory.possible();
        let image = |(number, disk): (usize, PossibleDisk)| {
            let choices = Seed::of(seed, number as u64).bits();
            LyingDisk::after_crash(&disk, disk.landed(DiskLanding::Mixture(choices)), choices)
        };
        Self::new(self.memory.crash(seed), disks.into_iter().enumerate().map(image))
    }

    /// Returns the world that the next process finds after the death of the one that used this world, by `seed`. This
    /// world is not changed.
    #[must_use]
    pub fn kill(&self, seed: u64) -> Self {
        let mut killed = self.memory.possible();
        killed.kill(&mut Seed::new(seed));
        let disks = killed.disks.iter().map(|disk| LyingDisk::from_possible(disk.clone(), seed));
        Self::new(LyingMemory::from_possible(killed.of_memory()), disks)
    }
}
