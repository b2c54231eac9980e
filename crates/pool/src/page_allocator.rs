//! The allocator: which pages and chunks are in use, and in which zone.
//!
//! The medium has one kind byte and one 64-byte bitmap for each chunk (see `layout`); this is their copy in DRAM. A
//! page is taken here first, then in a transaction. It is freed here only after the transaction that freed it has
//! committed.
//!
//! - A1. A page that is free in the DRAM copy is free on the medium, durably, and no record can be replayed into it.
//! - A2. A chunk of the normal zone with no page in use counts as a free chunk: its kind changes with the transaction
//!   that takes it, never before. So moving the boundary between the zones needs no work.
//! - A3. A chunk is returned to the host only while it is free and taken here for that, so it has no data and no
//!   reservation of another caller. It is free again once its release is durable, so no crash undoes the release under
//!   its next owner.

mod bare_chunks;
mod exact_pages;
mod held_pages;

use ferrite_memory::Memory;
use parking_lot::Mutex;

use crate::damage::TableDamage;
use crate::extent::{Extent, Role, Zone};
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE, bitmap_at, is_meta, kind_at};
use crate::{Error, Result};

use bare_chunks::ChunkChoice;

/// The use of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkUse {
    /// Free.
    Free = 0,
    /// The pool's own tables.
    Meta = 1,
    /// Pages of 4 KiB.
    Normal = 2,
    /// One superpage of 2 MiB.
    Super = 3,
}

impl ChunkUse {
    /// Returns the use with this byte on the medium.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Free, Self::Meta, Self::Normal, Self::Super].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Space that a tag needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceNeed {
    /// The role of the extents.
    pub role: Role,
    /// The zone to take from.
    pub zone: Zone,
    /// The size in bytes, rounded up to the zone's unit.
    pub bytes: u64,
}

/// The use of a pool's space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SpaceUsage {
    /// The size of the pool in bytes.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Bytes in use in the normal zone.
    pub normal_bytes: u64,
    /// Bytes in use as superpages.
    pub super_bytes: u64,
    /// Bytes of the pool's own tables.
    pub meta_bytes: u64,
}

#[derive(Debug)]
struct AllocatorState {
    kinds: Vec<ChunkUse>,
    /// The bitmaps of chunks of the normal zone; all clear for others.
    bitmaps: Vec<[u64; 8]>,
    /// The chunk at which the search for a page starts.
    normal_hint: usize,
    /// For each chunk, true if the host is known to have no storage for it.
    bare: Vec<bool>,
}

/// The allocator of a pool's pages and chunks.
#[derive(Debug)]
pub struct PageAllocator(Mutex<AllocatorState>);

impl PageAllocator {
    /// Reads the tables of a pool of `chunks` chunks. A chunk of unknown kind is reported as damage and never
    /// allocated.
    pub fn load(memory: &dyn Memory, chunks: u64) -> (Self, Vec<TableDamage>) {
        let bare = vec![false; chunks as usize];
        let mut state = AllocatorState { kinds: Vec::new(), bitmaps: Vec::new(), normal_hint: 0, bare };
        let mut damage = Vec::new();
        for chunk in 0..chunks {
            let mut byte = [0];
            memory.load(kind_at(chunk), &mut byte);
            let kind = ChunkUse::from_byte(byte[0]).filter(|kind| (*kind == ChunkUse::Meta) == is_meta(chunk));
            let kind = kind.unwrap_or_else(|| {
                let (error, at) =
                    (Error::corrupt(format!("the kind of chunk {chunk}"), kind_at(chunk)), kind_at(chunk));
                damage.push(TableDamage { error, at, is_slot: false });
                ChunkUse::Meta
            });
            let mut bitmap = [0; 8];
            if kind == ChunkUse::Normal {
                for (i, word) in bitmap.iter_mut().enumerate() {
                    *word = memory.load_word(bitmap_at(chunk) + i as u64 * 8);
                }
            }
            state.kinds.push(kind);
            state.bitmaps.push(bitmap);
        }
        (Self(Mutex::new(state)), damage)
    }

    /// Takes space for all of `needs`, or none. Only the DRAM copy changes.
    ///
    /// # Errors
    /// [`Error::Full`] if there is too little.
    pub fn take(&self, needs: &[SpaceNeed]) -> Result<Vec<Extent>> {
        self.take_among(&[ChunkChoice::All], needs)
    }

    fn take_among(&self, order: &[ChunkChoice], needs: &[SpaceNeed]) -> Result<Vec<Extent>> {
        let mut state = self.0.lock();
        let mut taken = Vec::new();
        for need in needs {
            if !state.take(need, order, &mut taken) {
                taken.iter().for_each(|extent| state.free(*extent));
                let free_bytes = state.usage().free_bytes;
                let needed_bytes = needs.iter().fold(0, |sum: u64, need| sum.saturating_add(need.bytes));
                return Err(Error::Full { needed_bytes, free_bytes });
            }
        }
        Ok(taken)
    }

    /// Frees `extents` in the DRAM copy.
    pub fn free(&self, extents: &[Extent]) {
        let mut state = self.0.lock();
        extents.iter().for_each(|extent| state.free(*extent));
    }

    /// Returns the use of the space.
    pub fn usage(&self) -> SpaceUsage {
        self.0.lock().usage()
    }

    /// Returns the bytes of free chunks, which the super zone can take. Stops counting at `enough`.
    pub fn idle_bytes_up_to(&self, enough: u64) -> u64 {
        let state = self.0.lock();
        let mut idle = 0;
        for _ in (0..state.kinds.len()).filter(|chunk| state.is_idle(*chunk)) {
            idle += CHUNK;
            if idle >= enough {
                return enough;
            }
        }
        idle
    }

    /// Returns true if every page of `extent` is in use, in its zone. False for an extent outside the pool.
    pub fn in_use(&self, extent: Extent) -> bool {
        let state = self.0.lock();
        (extent.page..extent.end()).all(|page| {
            let (chunk, index) = ((page / CHUNK_PAGES) as usize, page % CHUNK_PAGES);
            match state.kinds.get(chunk) {
                Some(ChunkUse::Super) => extent.zone == Zone::Super,
                Some(ChunkUse::Normal) => extent.zone == Zone::Normal && bit(&state.bitmaps[chunk], index),
                _ => false,
            }
        })
    }

    /// Returns the use of every chunk, in order.
    pub fn kinds(&self) -> Vec<ChunkUse> {
        self.0.lock().kinds.clone()
    }
}

fn bit(bitmap: &[u64; 8], index: u64) -> bool {
    bitmap[(index / 64) as usize] >> (index % 64) & 1 == 1
}

impl AllocatorState {
    /// Returns true if `chunk` can be taken for either zone (A2).
    fn is_idle(&self, chunk: usize) -> bool {
        match self.kinds[chunk] {
            ChunkUse::Free => true,
            ChunkUse::Normal => self.bitmaps[chunk] == [0; 8],
            ChunkUse::Meta | ChunkUse::Super => false,
        }
    }

    /// Takes space for `need` from the chunks of each choice in `order`. Returns true if there was enough.
    fn take(&mut self, need: &SpaceNeed, order: &[ChunkChoice], taken: &mut Vec<Extent>) -> bool {
        let first_new = taken.len();
        let mut left = match need.zone {
            Zone::Super => need.bytes.div_ceil(CHUNK),
            Zone::Normal => need.bytes.div_ceil(PAGE),
        };
        for among in order {
            left = match need.zone {
                Zone::Super => self.take_chunks(*among, left, need.role, taken, first_new),
                Zone::Normal => self.take_pages(*among, left, need.role, taken, first_new),
            };
        }
        left == 0
    }

    /// Takes up to `left` chunks. Returns the number that is still missing.
    fn take_chunks(
        &mut self,
        among: ChunkChoice,
        mut left: u64,
        role: Role,
        taken: &mut Vec<Extent>,
        first_new: usize,
    ) -> u64 {
        for chunk in 0..self.kinds.len() {
            if left == 0 {
                break;
            }
            if !self.is_idle(chunk) || !self.is_among(among, chunk) {
                continue;
            }
            self.kinds[chunk] = ChunkUse::Super;
            let page = chunk as u64 * CHUNK_PAGES;
            match taken[first_new..].last_mut() {
                Some(last) if last.end() == page && last.pages < u32::MAX / 2 => last.pages += CHUNK_PAGES as u32,
                _ => taken.push(Extent { page, pages: CHUNK_PAGES as u32, role, zone: Zone::Super }),
            }
            left -= 1;
        }
        left
    }

    /// Takes up to `left` pages. Returns the number that is still missing.
    fn take_pages(
        &mut self,
        among: ChunkChoice,
        mut left: u64,
        role: Role,
        taken: &mut Vec<Extent>,
        first_new: usize,
    ) -> u64 {
        let count = self.kinds.len();
        for step in 0..count {
            if left == 0 {
                break;
            }
            let chunk = (self.normal_hint + step) % count;
            if self.kinds[chunk] == ChunkUse::Normal && self.is_among(among, chunk) {
                left = self.take_in(chunk, left, role, taken, first_new);
            }
        }
        for chunk in 0..count {
            if left == 0 {
                break;
            }
            if self.kinds[chunk] == ChunkUse::Free && self.is_among(among, chunk) {
                self.kinds[chunk] = ChunkUse::Normal;
                self.normal_hint = chunk;
                left = self.take_in(chunk, left, role, taken, first_new);
            }
        }
        left
    }

    /// Takes up to `left` free pages of `chunk`. Returns the number that is still missing.
    fn take_in(&mut self, chunk: usize, mut left: u64, role: Role, taken: &mut Vec<Extent>, first_new: usize) -> u64 {
        for index in 0..CHUNK_PAGES {
            if left == 0 {
                break;
            }
            let word = &mut self.bitmaps[chunk][(index / 64) as usize];
            if *word >> (index % 64) & 1 == 1 {
                continue;
            }
            *word |= 1 << (index % 64);
            let page = chunk as u64 * CHUNK_PAGES + index;
            match taken[first_new..].last_mut() {
                Some(last) if last.end() == page && !page.is_multiple_of(CHUNK_PAGES) => last.pages += 1,
                _ => taken.push(Extent { page, pages: 1, role, zone: Zone::Normal }),
            }
            left -= 1;
        }
        left
    }

    fn free(&mut self, extent: Extent) {
        for page in extent.page..extent.end() {
            let (chunk, index) = ((page / CHUNK_PAGES) as usize, page % CHUNK_PAGES);
            match self.kinds[chunk] {
                ChunkUse::Super if index == 0 => self.kinds[chunk] = ChunkUse::Free,
                ChunkUse::Normal => self.bitmaps[chunk][(index / 64) as usize] &= !(1 << (index % 64)),
                _ => {}
            }
        }
    }

    fn usage(&self) -> SpaceUsage {
        let mut usage = SpaceUsage { total_bytes: self.kinds.len() as u64 * CHUNK, ..SpaceUsage::default() };
        for (chunk, kind) in self.kinds.iter().enumerate() {
            match kind {
                ChunkUse::Free => usage.free_bytes += CHUNK,
                ChunkUse::Meta => usage.meta_bytes += CHUNK,
                ChunkUse::Super => usage.super_bytes += CHUNK,
                ChunkUse::Normal => {
                    let used = self.bitmaps[chunk].iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                    usage.normal_bytes += used * PAGE;
                    usage.free_bytes += CHUNK - used * PAGE;
                }
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests;
