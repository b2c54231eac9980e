//! The buffers of a cache: which are free, being filled, and waiting for their seal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::write_buffer::EPOCH_MAX;

/// The buffers that are being filled: one for dirty versions, one for clean ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    Dirty = 0,
    Clean = 1,
}

/// A slot that one thread may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotGrant {
    /// The number of the slot, counted over all buffers.
    pub slot: u32,
    /// The epoch of its buffer.
    pub epoch: u64,
}

/// The filling of one buffer.
#[derive(Default)]
pub(crate) struct BufferState {
    /// The epoch; 0 if the buffer is free.
    pub epoch: AtomicU64,
    /// Slots that were granted.
    taken: AtomicU32,
    /// Slots whose grant ended.
    finished: AtomicU32,
}

#[derive(Default)]
struct BufferLists {
    free: Vec<u32>,
    open: [Option<u32>; 2],
    full: VecDeque<u32>,
}

/// All buffers of a cache.
pub(crate) struct BufferSet {
    pages: u32,
    lists: Mutex<BufferLists>,
    states: Box<[BufferState]>,
    epochs: AtomicU64,
}

/// The number of free buffers that only the worker opens, so that it can always move pages.
pub(crate) const WORKER_BUFFERS: usize = 2;

impl BufferSet {
    /// Returns `buffers` free buffers of `pages` slots.
    pub fn new(buffers: u32, pages: u32) -> Self {
        let free = (0..buffers).rev().collect();
        Self {
            pages,
            lists: Mutex::new(BufferLists { free, ..BufferLists::default() }),
            states: (0..buffers).map(|_| BufferState::default()).collect(),
            epochs: AtomicU64::new(1),
        }
    }

    /// Returns the next epoch of all buffers.
    pub fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if there are epochs for new fillings.
    pub fn has_epochs(&self) -> bool {
        self.epochs.load(Ordering::Relaxed) <= EPOCH_MAX
    }

    /// Lets later epochs be greater than `epoch` (WB4).
    pub fn pass_epoch(&self, epoch: u64) {
        self.epochs.fetch_max(epoch + 1, Ordering::Relaxed);
    }

    /// Grants a slot, for the worker also from its reserve. A buffer is begun by `begin`, which gets its number and its
    /// epoch and makes them durable. Returns `None` if no buffer is free.
    pub fn take(&self, slot_use: SlotUse, is_worker: bool, begin: impl FnOnce(u32, u64)) -> Option<SlotGrant> {
        let mut lists = self.lists.lock();
        let buffer = match lists.open[slot_use as usize] {
            Some(buffer) => buffer,
            None if is_worker || lists.free.len() > WORKER_BUFFERS => {
                let buffer = lists.free.pop()?;
                let (state, epoch) = (self.state(buffer), self.next_epoch());
                begin(buffer, epoch);
                state.taken.store(0, Ordering::Relaxed);
                state.finished.store(0, Ordering::Relaxed);
                state.epoch.store(epoch, Ordering::Release);
                lists.open[slot_use as usize] = Some(buffer);
                buffer
            }
            None => return None,
        };
        let state = self.state(buffer);
        let index = state.taken.fetch_add(1, Ordering::Relaxed);
        if index + 1 == self.pages {
            lists.open[slot_use as usize] = None;
            lists.full.push_back(buffer);
        }
        Some(SlotGrant { slot: buffer * self.pages + index, epoch: state.epoch.load(Ordering::Relaxed) })
    }

    /// Ends a grant. Returns true if the buffer can now be sealed.
    pub fn finish(&self, grant: SlotGrant) -> bool {
        let state = self.state(grant.slot / self.pages);
        state.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.pages
    }

    /// Returns the oldest full buffer all of whose grants have ended, and removes it from the list.
    pub fn take_full(&self) -> Option<u32> {
        let mut lists = self.lists.lock();
        let is_ready = |buffer: &u32| self.state(*buffer).finished.load(Ordering::Acquire) == self.pages;
        let index = lists.full.iter().position(is_ready)?;
        lists.full.remove(index)
    }

    /// Puts a buffer back that [`Self::take_full`] gave, to be sealed later.
    pub fn put_full(&self, buffer: u32) {
        self.lists.lock().full.push_front(buffer);
    }

    /// Adds the buffer `buffer`, which recovery found with the epoch `epoch`, to those that wait for their seal.
    pub fn adopt(&self, buffer: u32, epoch: u64) {
        let state = self.state(buffer);
        state.epoch.store(epoch, Ordering::Release);
        state.taken.store(self.pages, Ordering::Relaxed);
        state.finished.store(self.pages, Ordering::Release);
        let mut lists = self.lists.lock();
        lists.free.retain(|free| *free != buffer);
        lists.full.push_back(buffer);
    }

    /// Adds the buffer `buffer` to the free ones.
    pub fn free(&self, buffer: u32) {
        self.state(buffer).epoch.store(0, Ordering::Release);
        self.lists.lock().free.push(buffer);
    }

    /// Returns the epoch of the buffer that has the slot `slot`.
    pub fn epoch_of(&self, slot: u32) -> u64 {
        self.state(slot / self.pages).epoch.load(Ordering::Acquire)
    }

    /// Returns the numbers of free buffers and of buffers that wait for their seal.
    pub fn free_and_full(&self) -> (usize, usize) {
        let lists = self.lists.lock();
        (lists.free.len(), lists.full.len())
    }

    fn state(&self, buffer: u32) -> &BufferState {
        &self.states[buffer as usize]
    }
}

#[cfg(test)]
mod tests;
