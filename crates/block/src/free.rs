//! Free blocks of the data stream. In DRAM only: rebuilt from the map at open.
//!
//! - FB1. A block that was freed is used again only after every reader that may still copy from it has unpinned. Who reads
//!   what lies at its usual place pins nothing, and sees afterwards that none of it has been freed (`map`).
//! - FB2. A thread finds a block in its stash, or else under a lock of its own shard; others are asked only when that is
//!   empty, and stashes are recalled when all are.
//! - FB3. Nor is it used while it is lent, and nobody waits for that: it is kept aside. So no more than a part of the
//!   spares is lent at once, and writers always have the others.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferrite_memory::{Pin, wait_for_pins};
use parking_lot::{Mutex, MutexGuard};

use crate::loans::Loans;
use crate::stages::{DiskStage, StageTimer, Stages};
use crate::stash::{PILE, Recalled, Stashes};

pub(crate) const SHARDS: usize = 16;
/// Blocks for which it pays to wait for readers, or to ask another shard.
const WORTH_A_WAIT: usize = 64;

#[derive(Default)]
#[repr(align(128))]
struct FreeShard(Mutex<ShardBlocks>);

#[derive(Default)]
struct ShardBlocks {
    /// To be used, last first.
    ready: Vec<u32>,
    /// Freed, and maybe still read from.
    freed: Vec<u32>,
}

/// The free blocks of one disk.
#[derive(Default)]
pub(crate) struct FreeBlocks {
    shards: [FreeShard; SHARDS],
    stashes: Stashes,
    /// Those that were lent.
    pub(crate) loans: Loans,
    /// Where the time is counted that is waited for readers.
    stages: Option<Arc<Stages>>,
}

impl FreeBlocks {
    /// None, waiting for readers counted in `stages`.
    pub fn counted(stages: Option<Arc<Stages>>) -> Self {
        Self { stages, ..Self::default() }
    }

    /// Adds blocks that nobody reads from.
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

    /// Fills `into` with blocks, all or none. The caller is not pinned.
    pub fn take(&self, into: &mut [u32]) -> bool {
        let usual = usual_shard();
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

    /// A block from the stash of the thread that holds `pin`.
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
        let mut shard = self.shards[usual_shard()].0.lock();
        shard.freed.extend(self.stashes.of(pin).into_iter().flat_map(|stash| stash.spill()));
        shard.freed.push(block);
    }

    /// Blocks for [`FreeBlocks::restock`], if the shards have that many. The caller is not pinned.
    pub fn take_stock(&self) -> Option<[u32; PILE]> {
        let mut blocks = [0; PILE];
        self.take(&mut blocks).then_some(blocks)
    }

    /// Puts `blocks`, which were taken, into the stash of the thread that holds `pin`.
    pub fn restock(&self, pin: &Pin, blocks: &[u32]) {
        let kept = |block: &&u32| self.stashes.of(pin).is_some_and(|stash| stash.keep(**block));
        let count = blocks.iter().rev().take_while(kept).count();
        self.put_back(&blocks[..blocks.len() - count]);
    }

    /// Brings what is in stashes to a shard. The caller is not pinned.
    pub fn recall(&self) {
        let Recalled { mut ready, freed } = self.stashes.recall();
        self.loans.sift(&mut ready);
        let mut shard = self.shards[usual_shard()].0.lock();
        shard.ready.extend(ready);
        shard.freed.extend(freed);
    }

    /// Takes out what is free of `blocks` when nobody can be reading from it any more. The caller is not pinned.
    pub fn withdraw(&self, blocks: &Range<u32>) -> Vec<u32> {
        self.recall();
        let (mut ready, mut freed) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            ready.extend(shard.ready.extract_if(.., |block| blocks.contains(block)));
            freed.extend(shard.freed.extract_if(.., |block| blocks.contains(block)));
        }
        self.wait(&mut freed);
        // Others may have been returned that were lent before.
        ready.extend(freed.extract_if(.., |block| blocks.contains(block)));
        self.put_back(&freed);
        ready
    }

    /// Gives back blocks that were taken and never read from.
    pub fn put_back(&self, blocks: &[u32]) {
        self.shards[usual_shard()].0.lock().ready.extend(blocks.iter().rev());
    }

    /// Gives back blocks to which a store did not arrive, to be used when there are no others.
    pub fn put_last(&self, blocks: &[u32]) {
        self.shards[usual_shard()].0.lock().ready.splice(..0, blocks.iter().copied());
    }

    /// Waits until nobody can be reading from `freed`, and takes out what is lent.
    fn wait(&self, freed: &mut Vec<u32>) {
        let _waiting = StageTimer::start(self.stages.as_deref(), DiskStage::WaitForPins);
        wait_for_pins();
        self.loans.sift(freed);
    }

    /// Frees blocks that readers may still copy from (FB1).
    pub fn free(&self, blocks: impl IntoIterator<Item = u64>) {
        let mut blocks = blocks.into_iter().map(|block| block as u32).peekable();
        if blocks.peek().is_some() {
            self.shards[usual_shard()].0.lock().freed.extend(blocks);
        }
    }

    /// Blocks that are free, those still read from included.
    pub fn count(&self) -> u64 {
        let of = |shard: &FreeShard| {
            let blocks = shard.0.lock();
            (blocks.ready.len() + blocks.freed.len()) as u64
        };
        self.shards.iter().map(of).sum::<u64>() + self.stashes.count()
    }
}

impl FreeShard {
    /// Fills the start of `into`; how much of it. Waits for readers only where that frees `worth` blocks or more.
    fn take(&self, into: &mut [u32], worth: usize, wait: impl Fn(&mut Vec<u32>)) -> usize {
        let mut blocks = self.0.lock();
        if blocks.ready.len() < into.len() && blocks.freed.len() >= worth {
            let mut freed = std::mem::take(&mut blocks.freed);
            // Who is pinned may want this lock before unpinning.
            MutexGuard::unlocked(&mut blocks, || wait(&mut freed));
            // Those that were freed first are used first and in the same order, so that what is written again in
            // sequence lies in sequence again.
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

    /// Up to `count` of its blocks that can be used at once.
    fn give(&self, count: usize) -> Vec<u32> {
        let mut blocks = self.0.lock();
        let keep = blocks.ready.len().saturating_sub(count);
        blocks.ready.split_off(keep)
    }
}

thread_local!(static USUAL: Cell<usize> = const { Cell::new(usize::MAX) });

/// The shard that this thread asks first, below [`SHARDS`].
#[inline]
pub(crate) fn usual_shard() -> usize {
    let usual = USUAL.get();
    if usual == usize::MAX { choose_shard() } else { usual % SHARDS }
}

#[cold]
fn choose_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    USUAL.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    USUAL.get()
}

#[cfg(test)]
mod tests;
