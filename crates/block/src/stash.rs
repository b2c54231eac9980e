//! A few free blocks for each thread, so that a small overwrite takes and frees one without a lock: a locked
//! instruction waits until every store before it is done, and the overwrite with it.
//!
//! A thread finds its stash by its pin's seat and touches it only while pinned. Whoever wants what others keep in
//! theirs says so, waits for the pins of before, and then has all stashes for itself.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferrite_memory::{Pin, wait_for_pins};
use parking_lot::Mutex;

/// Threads that have one; more than that share the shards.
const STASHES: usize = 64;
/// Blocks of one kind in a stash.
pub(crate) const PILE: usize = 31;

/// Up to [`PILE`] blocks. Its owner changes it by plain loads and stores.
#[derive(Default)]
#[repr(align(128))]
struct Pile {
    count: AtomicU32,
    blocks: [AtomicU32; PILE],
}

/// What one thread keeps.
#[derive(Default)]
pub(crate) struct Stash {
    /// To be used.
    ready: Pile,
    /// Freed, and maybe still read from.
    freed: Pile,
}

/// The stashes of all threads.
pub(crate) struct Stashes {
    all: Box<[Stash]>,
    is_recalled: AtomicBool,
    recalling: Mutex<()>,
}

/// What was recalled.
pub(crate) struct Recalled {
    /// To be used.
    pub ready: Vec<u32>,
    /// Freed, and maybe still read from.
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
    /// The stash of the thread that holds `pin`, if it has one now.
    #[inline]
    pub fn of(&self, pin: &Pin) -> Option<&Stash> {
        let stash = self.all.get(pin.seat()?)?;
        (!self.is_recalled.load(Ordering::Acquire)).then_some(stash)
    }

    /// Takes what is in all of them. The caller is not pinned.
    pub fn recall(&self) -> Recalled {
        let _one = self.recalling.lock();
        self.is_recalled.store(true, Ordering::SeqCst);
        wait_for_pins();
        let drain = |pile: fn(&Stash) -> &Pile| self.all.iter().flat_map(|stash| pile(stash).drain()).collect();
        let recalled = Recalled { ready: drain(|stash| &stash.ready), freed: drain(|stash| &stash.freed) };
        self.is_recalled.store(false, Ordering::Release);
        recalled
    }

    /// Blocks in all of them.
    pub fn count(&self) -> u64 {
        self.all.iter().map(|stash| u64::from(stash.ready.count() + stash.freed.count())).sum()
    }
}

impl Stash {
    /// A block to use.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        self.ready.pop()
    }

    /// Keeps a block to use, if there is room.
    pub fn keep(&self, block: u32) -> bool {
        self.ready.push(block)
    }

    /// Keeps a freed block, if there is room.
    #[inline]
    pub fn free(&self, block: u32) -> bool {
        self.freed.push(block)
    }

    /// The freed blocks, which it keeps no longer.
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
