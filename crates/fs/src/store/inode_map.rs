//! Which inodes of a chunk are in use: in DRAM only, read from their modes when first asked for.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferrite_memory::Memory;

use crate::format::layout::{CHUNK_INODES, INODE};
use crate::store::bits::lowest;

/// Which inodes of a chunk are in use.
#[derive(Debug)]
pub(crate) struct InodeMap {
    used: [AtomicU64; (CHUNK_INODES / 64) as usize],
    /// The free ones, and never fewer: added before their bits are cleared, and subtracted after they are set.
    free: AtomicU32,
    /// The word where the search for a free inode starts.
    hint: AtomicUsize,
}

impl InodeMap {
    /// Reads which inodes of the chunk at `base` are in use. Number 0 of the first chunk is none.
    pub fn load(memory: &dyn Memory, base: u64, is_first: bool) -> Self {
        let is_used = |slot: u64| u64::from(memory.load_word(base + slot * INODE) as u16 != 0);
        let word = |word: usize| (0..64).fold(0, |bits, bit| bits | is_used(word as u64 * 64 + bit) << bit);
        let mut used: [u64; (CHUNK_INODES / 64) as usize] = std::array::from_fn(word);
        used[0] |= u64::from(is_first);
        let free = CHUNK_INODES as u32 - used.iter().map(|word| word.count_ones()).sum::<u32>();
        Self { used: used.map(AtomicU64::new), free: AtomicU32::new(free), hint: AtomicUsize::new(0) }
    }

    /// Returns how many are free.
    pub fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed)
    }

    /// Returns those in use.
    pub fn used(&self) -> impl Iterator<Item = u64> + '_ {
        (0..CHUNK_INODES).filter(|slot| self.used[(slot / 64) as usize].load(Ordering::Acquire) >> (slot % 64) & 1 != 0)
    }

    /// A free one, taken.
    pub fn take(&self) -> Option<u64> {
        let hint = self.hint.load(Ordering::Relaxed);
        for step in 0..self.used.len() {
            let index = (hint + step) % self.used.len();
            let word = &self.used[index];
            loop {
                let bit = lowest(!word.load(Ordering::Relaxed), 1);
                if bit == 0 {
                    break;
                }
                if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
                    self.free.fetch_sub(1, Ordering::Relaxed);
                    self.hint.store(index, Ordering::Relaxed);
                    return Some(index as u64 * 64 + u64::from(bit.trailing_zeros()));
                }
            }
        }
        None
    }

    /// Takes all of them, if all are free.
    pub fn claim(&self) -> bool {
        for index in 0..self.used.len() {
            let was = self.used[index].compare_exchange(0, u64::MAX, Ordering::AcqRel, Ordering::Relaxed);
            if was.is_err() {
                self.used[..index].iter().for_each(|word| word.store(0, Ordering::Release));
                return false;
            }
        }
        self.free.fetch_sub(CHUNK_INODES as u32, Ordering::Relaxed);
        true
    }

    /// Gives all of them back, which are claimed.
    pub fn free_all(&self) {
        self.free.fetch_add(CHUNK_INODES as u32, Ordering::Release);
        self.used.iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// Gives one back.
    pub fn return_slot(&self, slot: u64) {
        let bit = 1 << (slot % 64);
        self.free.fetch_add(1, Ordering::Relaxed);
        if self.used[(slot / 64) as usize].fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            self.free.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
