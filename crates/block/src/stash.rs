//! A few free blocks for each thread, so that a small write takes and frees one without a lock: a locked instruction
//! waits for every store before it, and the write waits with it.
//!
//! A thread finds its stash by the seat of its pin, and touches it only while it is pinned. A thread that recalls the
//! stashes sets a flag and waits for earlier pins; then it has all stashes for itself.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferrite_memory::{Pin, wait_for_pins};
use parking_lot::Mutex;

/// The number of threads that have a stash. Other threads use the shards.
const STASHES: usize = 64;
/// The number of blocks of one kind in a stash.
pub(crate) const PILE: usize = 31;

/// Up to [`PILE`] blocks. The owning thread changes it by plain loads and stores.
#[derive(Default)]
#[repr(align(128))]
struct Pile {
    count: AtomicU32,
    blocks: [AtomicU32; PILE],
}

/// The free blocks of one thread.
#[derive(Default)]
pub(crate) struct Stash {
    /// Blocks to use.
    ready: Pile,
    /// Freed blocks that readers may still copy from.
    freed: Pile,
}

/// The stashes of all threads.
pub(crate) struct Stashes {
    all: Box<[Stash]>,
    is_recalled: AtomicBool,
    recalling: Mutex<()>,
}

/// The blocks of all stashes.
pub(crate) struct Recalled {
    /// Blocks to use.
    pub ready: Vec<u32>,
    /// Freed blocks that readers may still copy from.
    pub freed: Vec<u32>,
}

impl Default for Stashes {
    fn default() -> Self {
        Self {
            all: (0..STASHES).map(|_| Stash::default()).collect(),
            is_recalled: AtomicBool::new(false),
            recalling: Mutex::new(()),
        }
    }
}

impl Stashes {
    /// Returns the stash of the thread that holds `pin`, unless the stashes are being recalled.
    #[inline]
    pub fn of(&self, pin: &Pin) -> Option<&Stash> {
        let stash = self.all.get(pin.seat()?)?;
        (!self.is_recalled.load(Ordering::Acquire)).then_some(stash)
    }

    /// Takes the blocks of all stashes. The caller holds no pin.
    pub fn recall(&self) -> Recalled {
        let _one = self.recalling.lock();
        self.is_recalled.store(true, Ordering::SeqCst);
        wait_for_pins();
        let drain = |pile: fn(&Stash) -> &Pile| self.all.iter().flat_map(|stash| pile(stash).drain()).collect();
        let recalled = Recalled { ready: drain(|stash| &stash.ready), freed: drain(|stash| &stash.freed) };
        self.is_recalled.store(false, Ordering::Release);
        recalled
    }

    /// Returns the number of blocks in all stashes.
    pub fn count(&self) -> u64 {
        self.all.iter().map(|stash| u64::from(stash.ready.count() + stash.freed.count())).sum()
    }
}

impl Stash {
    /// Takes a block to use.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        self.ready.pop()
    }

    /// Keeps a block to use. Returns false if the stash is full.
    pub fn keep(&self, block: u32) -> bool {
        self.ready.push(block)
    }

    /// Keeps a freed block. Returns false if the stash is full.
    #[inline]
    pub fn free(&self, block: u32) -> bool {
        self.freed.push(block)
    }

    /// Takes the freed blocks.
    pub fn spill(&self) -> impl Iterator<Item = u32> + '_ {
        self.freed.drain()
    }
}

impl Pile {
    #[inline]
    fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    fn push(&self, block: u32) -> bool {
        let count = self.count();
        let Some(slot) = self.blocks.get(count as usize) else { return false };
        slot.store(block, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }

    #[inline]
    fn pop(&self) -> Option<u32> {
        let count = self.count().checked_sub(1)?;
        self.count.store(count, Ordering::Relaxed);
        Some(self.blocks.get(count as usize)?.load(Ordering::Relaxed))
    }

    fn drain(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::from_fn(|| self.pop())
    }
}

#[cfg(test)]
mod tests;
