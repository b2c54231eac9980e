//! Populate buffers: slots in the pool that gather new versions of blocks until a whole LEB of them goes to the SSDs.
//!
//! ```text
//! buffer  0 epoch   a checked word, 0 while the buffer is free; then one header for each slot:
//! slot    0 check u32 (CRC-32 of 4..32)   4 sum u32 of the data   8 sequence u64   16 word u64 (see `page_word`)
//!        24 epoch u64   32 zeros   48 clean u64   56 dead u64
//! then, from the next page on, 4 KiB of data for each slot
//! ```
//!
//! The epoch numbers the fillings of all buffers. `clean` and `dead` count if they equal the epoch of the slot.
//!
//! - WB1. A slot counts if its header verifies, its epoch is the one of its buffer, and its data have its sum. So one
//!   fence makes a write durable: a slot of which a crash kept a part does not count. A slot whose word says `lost` was
//!   read from a disk that may lose the bytes: after a crash it does not count.
//! - WB2. The sequences of two slots with versions of one block have the order in which the versions became visible.
//! - WB3. A buffer begins a new filling only after the slots of the last one are dead or in a valid table.
//! - WB4. No two fillings have the same epoch, also of different openings of the cache: the headers of earlier fillings
//!   stay in the slots that a filling has not reached, and do not count by their epochs alone.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use ferrite_memory::{Scheme, Span, planted};
use ferrite_pool::{seal, unseal};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::cache_layout::BLOCK;
use crate::cache_memory::{CacheMemory, sum_of};
use crate::page_word::{BlockKey, PageWord};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SlotMedia {
    check: U32,
    sum: U32,
    sequence: U64,
    word: U64,
    epoch: U64,
    reserved: [u8; 16],
    clean: U64,
    dead: U64,
}

const _: () = assert!(size_of::<SlotMedia>() == 64);
const CLEAN_AT: u64 = 48;
const DEAD_AT: u64 = 56;
/// The highest epoch, which has 48 bits in the table of a LEB.
pub(crate) const EPOCH_MAX: u64 = (1 << 48) - 1;

/// The header of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotHeader {
    pub sum: u32,
    pub sequence: u64,
    pub word: PageWord,
    pub epoch: u64,
    pub is_clean: bool,
    pub is_dead: bool,
}

impl SlotMedia {
    fn check(&self, salt: u32) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(salt);
        hasher.update(&self.as_bytes()[4..32]);
        hasher.finalize()
    }
}

/// Returns the header in `bytes`, which are not trusted, or `None` if they are none.
pub(crate) fn decode_slot_header(salt: u32, bytes: &[u8; 64]) -> Option<SlotHeader> {
    let media = SlotMedia::read_from_bytes(bytes).expect("the size is the type's");
    if media.check.get() != media.check(salt) {
        return None;
    }
    let epoch = media.epoch.get();
    if epoch > EPOCH_MAX {
        return None;
    }
    Some(SlotHeader {
        sum: media.sum.get(),
        sequence: media.sequence.get(),
        word: PageWord::decode(salt, media.word.get())?,
        epoch,
        is_clean: media.clean.get() == epoch,
        is_dead: media.dead.get() == epoch,
    })
}

/// The state of a slot in DRAM.
#[derive(Default)]
pub(crate) struct SlotState {
    key: AtomicU64,
    /// True if the slot has a version that the disk does not have.
    pub dirty: AtomicBool,
    /// False from the moment on when a newer version is visible.
    pub live: AtomicBool,
    pub hits: AtomicU8,
    /// The number of the disk's write of this version, if it was also written through (see `CachedDisk`); 0 without.
    pub through: AtomicU64,
}

impl SlotState {
    /// Returns the block of the slot.
    pub fn key(&self) -> BlockKey {
        BlockKey::from_bits(self.key.load(Ordering::Acquire))
    }

    /// Returns true if the slot has the newest version of its block, and the disk has that version too.
    pub fn is_clean(&self) -> bool {
        self.live.load(Ordering::Acquire) && !self.dirty.load(Ordering::Acquire)
    }

    /// Describes a slot that was just filled.
    pub fn fill(&self, word: PageWord) {
        self.key.store(word.key.bits(), Ordering::Release);
        self.dirty.store(word.dirty, Ordering::Release);
        self.hits.store(word.hits, Ordering::Relaxed);
        self.through.store(0, Ordering::Relaxed);
        self.live.store(true, Ordering::Release);
    }
}

impl CacheMemory {
    /// Returns the epoch of buffer `number`: 0 if it is free, `None` if the word is damaged.
    pub fn buffer_epoch(&self, number: u32) -> Option<u64> {
        match self.memory().load_word(self.buffer(number)) {
            0 => Some(0),
            word => unseal(self.salt, word).filter(|epoch| *epoch <= EPOCH_MAX),
        }
    }

    /// Stores the epoch of buffer `number`; 0 frees it (WB3). Durable after this thread's next drain.
    pub fn set_buffer_epoch(&self, number: u32, epoch: u64) {
        let at = self.buffer(number);
        self.memory().store_word(at, seal(self.salt, epoch));
        self.memory().flush(Span::new(at, 8));
    }

    /// Stores `data` into the slot `slot`. Returns its sum. Visible to other threads after a fence of this one.
    pub fn store_slot_data(&self, slot: u32, data: &[u8]) -> u32 {
        let at = self.slot(slot).data;
        if self.scheme == Scheme::Nt
            && let Some(sum) = self.memory().store_summed(at, data)
        {
            return sum.finish();
        }
        self.memory().store(at, data, self.scheme);
        sum_of(data)
    }

    /// Stores the header of the slot `slot`, and fences: if fences are durable, the slot counts from now on (WB1).
    pub fn store_slot_header(&self, slot: u32, header: &SlotHeader) {
        let mut media = SlotMedia::new_zeroed();
        (media.sum, media.sequence) = (header.sum.into(), header.sequence.into());
        (media.word, media.epoch) = (header.word.encode(self.salt).into(), header.epoch.into());
        media.check = media.check(self.salt).into();
        self.memory().store(self.slot(slot).header, media.as_bytes(), self.scheme);
        if !planted!("cache: a slot is acknowledged before its fence") {
            self.memory().fence();
        }
    }

    /// Returns the header of the slot `slot`, or `None` if no header in the slot verifies.
    pub fn load_slot_header(&self, slot: u32) -> Option<SlotHeader> {
        let mut bytes = [0; 64];
        self.memory().load(self.slot(slot).header, &mut bytes);
        decode_slot_header(self.salt, &bytes)
    }

    /// Copies bytes out of the slot `slot`, from `offset` on.
    pub fn load_slot_data(&self, slot: u32, offset: u64, into: &mut [u8]) {
        debug_assert!(offset + into.len() as u64 <= BLOCK, "within the slot");
        self.memory().load(self.slot(slot).data + offset, into);
    }

    /// Marks the slot `slot` of the filling `epoch` as dead: durable after this thread's next drain.
    pub fn set_slot_dead(&self, slot: u32, epoch: u64) {
        self.set_slot_mark(slot, DEAD_AT, epoch);
    }

    /// Marks the slot `slot` of the filling `epoch` as clean: durable after this thread's next drain.
    pub fn set_slot_clean(&self, slot: u32, epoch: u64) {
        self.set_slot_mark(slot, CLEAN_AT, epoch);
    }

    fn set_slot_mark(&self, slot: u32, offset: u64, epoch: u64) {
        let at = self.slot(slot).header + offset;
        self.memory().store_word(at, epoch);
        self.memory().flush(Span::new(at, 8));
    }
}

#[cfg(test)]
mod tests;
