//! Free blocks of the data stream. They are kept in DRAM only, and rebuilt from the map when the disk is opened.
//!
//! - FB1. A freed block is used again only after every reader that may still copy from it has unpinned. A reader of
//!   blocks at their usual place holds no pin, and checks afterwards that none of them was freed (`map`).
//! - FB2. A thread takes a block from its stash, or else under the lock of its own shard. It asks other shards only if
//!   its own is empty, and recalls the stashes only if all shards are empty.
//! - FB3. A lent block is not used again until it is returned, and no writer waits for that: freed blocks that are lent
//!   are kept aside. At most a part of the spares is lent at once, so writers always have the others.

use std::ops::Range;
use std::sync::Arc;

use ferrite_memory::shard::{SHARDS, own_shard};
use ferrite_memory::{Pin, wait_for_pins};
use parking_lot::{Mutex, MutexGuard};

use crate::loans::Loans;
use crate::stages::{DiskStage, StageTimer, Stages};
use crate::stash::{PILE, Recalled, Stashes};

/// The number of blocks for which a thread waits for readers, or asks another shard.
const WORTH_A_WAIT: usize = 64;

#[derive(Default)]
#[repr(align(128))]
struct FreeShard(Mutex<ShardBlocks>);

#[derive(Default)]
struct ShardBlocks {
    /// Blocks to use, the last one first.
    ready: Vec<u32>,
    /// Freed blocks that readers may still copy from.
    freed: Vec<u32>,
}

/// The free blocks of one disk.
#[derive(Default)]
pub(crate) struct FreeBlockSet {
    shards: [FreeShard; SHARDS],
    stashes: Stashes,
    /// The lent blocks.
    pub(crate) loans: Loans,
    /// Counts the time spent waiting for readers.
    stages: Option<Arc<Stages>>,
}

impl FreeBlockSet {
    /// Makes an empty set that counts its waits for readers in `stages`.
    pub fn counted(stages: Option<Arc<Stages>>) -> Self {
        Self { stages, ..Self::default() }
    }

    /// Adds blocks that no reader can find.
    pub fn add(&self, blocks: impl IntoIterator<Item = u32>) {
        let mut blocks: Vec<u32> = blocks.into_iter().collect();
        blocks.reverse();
        let part = blocks.len().div_ceil(SHARDS).max(1);
        for (shard, blocks) in self.shards.iter().rev().zip(blocks.chunks(part)) {
            let mut shard = shard.0.lock();
            let old = std::mem::replace(&mut shard.ready, blocks.to_vec());
            shard.ready.extend(old);
        }
    }

    /// Fills `into` with blocks, all or none. The caller holds no pin.
    pub fn take(&self, into: &mut [u32]) -> bool {
        let usual = own_shard();
        let wait = |freed: &mut Vec<u32>| self.wait(freed);
        let mut found = self.shards[usual].take(into, WORTH_A_WAIT, wait);
        for step in 1..SHARDS {
            if found == into.len() {
                return true;
            }
            let missing = into.len() - found;
            let mut more = self.shards[(usual + step) % SHARDS].give(missing.max(WORTH_A_WAIT));
            let mine = more.split_off(more.len().saturating_sub(missing));
            for (slot, block) in into[found..].iter_mut().zip(mine.into_iter().rev()) {
                *slot = block;
                found += 1;
            }
            more.reverse();
            self.put_back(&more);
        }
        for shard in &self.shards {
            if found < into.len() {
                found += shard.take(&mut into[found..], 1, wait);
            }
        }
        if found < into.len() {
            self.put_back(&into[..found]);
        }
        found == into.len()
    }

    /// Takes a block from the stash of the thread that holds `pin`.
    #[inline]
    pub fn take_one(&self, pin: &Pin) -> Option<u32> {
        self.stashes.of(pin)?.take()
    }

    /// Frees a block that readers may still copy from (FB1).
    #[inline]
    pub fn free_one(&self, pin: &Pin, block: u32) {
        if !self.stashes.of(pin).is_some_and(|stash| stash.free(block)) {
            self.spill(pin, block);
        }
    }

    #[cold]
    fn spill(&self, pin: &Pin, block: u32) {
        let mut shard = self.shards[own_shard()].0.lock();
        shard.freed.extend(self.stashes.of(pin).into_iter().flat_map(|stash| stash.spill()));
        shard.freed.push(block);
    }

    /// Takes blocks for [`FreeBlockSet::restock`], if the shards have enough. The caller holds no pin.
    pub fn take_stock(&self) -> Option<[u32; PILE]> {
        let mut blocks = [0; PILE];
        self.take(&mut blocks).then_some(blocks)
    }

    /// Puts `blocks`, which the caller took, into the stash of the thread that holds `pin`.
    pub fn restock(&self, pin: &Pin, blocks: &[u32]) {
        let kept = |block: &&u32| self.stashes.of(pin).is_some_and(|stash| stash.keep(**block));
        let count = blocks.iter().rev().take_while(kept).count();
        self.put_back(&blocks[..blocks.len() - count]);
    }

    /// Moves the blocks of all stashes to a shard. The caller holds no pin.
    pub fn recall(&self) {
        let Recalled { mut ready, freed } = self.stashes.recall();
        self.loans.sift(&mut ready);
        let mut shard = self.shards[own_shard()].0.lock();
        shard.ready.extend(ready);
        shard.freed.extend(freed);
    }

    /// Takes out the free blocks among `blocks`, after the readers that may copy from them have unpinned. The caller
    /// holds no pin.
    pub fn withdraw(&self, blocks: &Range<u32>) -> Vec<u32> {
        self.recall();
        let (mut ready, mut freed) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            ready.extend(shard.ready.extract_if(.., |block| blocks.contains(block)));
            freed.extend(shard.freed.extract_if(.., |block| blocks.contains(block)));
        }
        self.wait(&mut freed);
        // The wait may have returned blocks of earlier loans.
        ready.extend(freed.extract_if(.., |block| blocks.contains(block)));
        self.put_back(&freed);
        ready
    }

    /// Puts back blocks that were taken and never named.
    pub fn put_back(&self, blocks: &[u32]) {
        self.shards[own_shard()].0.lock().ready.extend(blocks.iter().rev());
    }

    /// Puts back blocks to which a store did not arrive. They are used last.
    pub fn put_last(&self, blocks: &[u32]) {
        self.shards[own_shard()].0.lock().ready.splice(..0, blocks.iter().copied());
    }

    /// Waits until no reader can copy from `freed`, and takes out the lent blocks.
    fn wait(&self, freed: &mut Vec<u32>) {
        let _waiting = StageTimer::start(self.stages.as_deref(), DiskStage::WaitForPins);
        wait_for_pins();
        self.loans.sift(freed);
    }

    /// Frees blocks that readers may still copy from (FB1).
    pub fn free(&self, blocks: impl IntoIterator<Item = u64>) {
        let mut blocks = blocks.into_iter().map(|block| block as u32).peekable();
        if blocks.peek().is_some() {
            self.shards[own_shard()].0.lock().freed.extend(blocks);
        }
    }

    /// Returns the number of free blocks, including those that readers may still copy from.
    pub fn count(&self) -> u64 {
        let of = |shard: &FreeShard| {
            let blocks = shard.0.lock();
            (blocks.ready.len() + blocks.freed.len()) as u64
        };
        self.shards.iter().map(of).sum::<u64>() + self.stashes.count()
    }
}

impl FreeShard {
    /// Fills the start of `into` and returns how many blocks it filled. Waits for readers only if that frees `worth`
    /// blocks or more.
    fn take(&self, into: &mut [u32], worth: usize, wait: impl Fn(&mut Vec<u32>)) -> usize {
        let mut blocks = self.0.lock();
        if blocks.ready.len() < into.len() && blocks.freed.len() >= worth {
            let mut freed = std::mem::take(&mut blocks.freed);
            // A pinned thread may need this lock before it unpins.
            MutexGuard::unlocked(&mut blocks, || wait(&mut freed));
            // The blocks freed first are used first and in the same order, so a sequential rewrite stays sequential.
            freed.reverse();
            blocks.ready.append(&mut freed);
        }
        let count = into.len().min(blocks.ready.len());
        let keep = blocks.ready.len() - count;
        for (slot, block) in into.iter_mut().zip(blocks.ready.drain(keep..).rev()) {
            *slot = block;
        }
        count
    }

    /// Takes up to `count` blocks that can be used at once.
    fn give(&self, count: usize) -> Vec<u32> {
        let mut blocks = self.0.lock();
        let keep = blocks.ready.len().saturating_sub(count);
        blocks.ready.split_off(keep)
    }
}

#[cfg(test)]
mod tests;
