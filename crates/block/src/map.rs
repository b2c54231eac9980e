//! The map: which block of the data stream holds each block of the disk.
//!
//! ```text
//! word on the medium   bits 0..31 block of the data stream + 1, or 0 for a block that reads as zeros
//!                      bits 32..63 checksum of its content, or 0 where the disk keeps none
//! word in DRAM         bits 0..30 as above   bit 31 a writer is changing it
//! ```
//!
//! The words in DRAM are what readers follow; those on the medium are what a crash leaves.

use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_medium::{Memory, Scheme, Span};
use ferrite_pool::{Extent, Role, Stream};
use parking_lot::RwLock;

use crate::table::Table;

const LOCKED: u32 = 1 << 31;
/// Bytes of a word on the medium.
pub(crate) const WORD: u64 = 8;

/// What a map word names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(pub(crate) u32);

impl Entry {
    /// Reads as zeros.
    pub const ZERO: Self = Self(0);

    /// The block of the data stream, if there is one.
    #[inline]
    pub fn block(self) -> Option<u64> {
        self.0.checked_sub(1).map(u64::from)
    }

    /// The entry of block `block` of the data stream.
    #[inline]
    pub fn of(block: u32) -> Self {
        Self(block + 1)
    }

    /// The entry of a word on the medium, which may be anything.
    pub fn from_media(word: u64) -> Self {
        Self(word as u32)
    }
}

/// The map of one disk.
pub(crate) struct Map {
    words: Table<AtomicU32>,
    /// Where the words lie on the medium. Changes only when the disk grows; no reader of data needs it.
    places: RwLock<Stream>,
}

impl Map {
    /// A map with room for `blocks_max` blocks.
    pub fn new(blocks_max: u64) -> Self {
        Self { words: Table::new(blocks_max), places: RwLock::new(Stream::default()) }
    }

    /// Takes over the map stream of `extents` for `blocks` blocks. The words are as they were; new ones are zero.
    pub fn grow(&self, extents: &[Extent], blocks: u64) {
        self.words.grow(blocks);
        *self.places.write() = Stream::new(extents, Role::MAP);
    }

    /// Sets a word in DRAM, while nobody else uses the map.
    pub fn set(&self, index: u64, entry: Entry) {
        self.words.row(index).store(entry.0, Ordering::Relaxed);
    }

    /// What block `index` of the disk is.
    #[inline]
    pub fn get(&self, index: u64) -> Entry {
        Entry(self.words.row(index).load(Ordering::Acquire) & !LOCKED)
    }

    /// Keeps other writers away from block `index`; readers go on. Its entry is as returned until [`Map::unlock`].
    pub fn lock(&self, index: u64) -> Entry {
        let word = self.words.row(index);
        let mut spins = 0_u32;
        loop {
            let seen = word.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && word.compare_exchange_weak(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Entry(seen);
            }
            spins += 1;
            if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Lets writers at block `index` again, with `entry` as what readers find from now on.
    pub fn unlock(&self, index: u64, entry: Entry) {
        self.words.row(index).store(entry.0, Ordering::Release);
    }

    /// Writes the words of blocks `first ..` on the medium; durable once the caller has settled.
    pub fn publish(&self, memory: &dyn Memory, first: u64, entries: &[Entry]) {
        let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| u64::from(entry.0).to_le_bytes()).collect();
        for run in self.places.read().runs(Span::new(first * WORD, bytes.len() as u64)) {
            let rest = bytes.split_off(run.len as usize);
            memory.store(run.at, &bytes, Scheme::Nt);
            bytes = rest;
        }
    }

    /// The words of blocks `first ..` on the medium.
    pub fn published(&self, memory: &dyn Memory, first: u64, entries: &mut [Entry]) {
        let mut bytes = vec![0; entries.len() * WORD as usize];
        let mut at = 0;
        for run in self.places.read().runs(Span::new(first * WORD, bytes.len() as u64)) {
            memory.load(run.at, &mut bytes[at..at + run.len as usize]);
            at += run.len as usize;
        }
        for (entry, word) in entries.iter_mut().zip(bytes.chunks_exact(WORD as usize)) {
            *entry = Entry::from_media(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
    }
}
