//! The chunks of a file system, and what of them is free.
//!
//! The kind and the bitmap of each chunk on the medium are authoritative (`layout`); this is their copy in DRAM. Space
//! that is free here is free on the medium. An allocation takes it here first, then in a transaction (`change`); freed
//! space returns here after the commit.
//!
//! - FC1. Pages of data chunks are written directly and by no transaction; pages of index chunks by transactions alone.
//!   So each is used again for the same at once. A chunk changes its kind only when no record can be replayed into it.
//! - FC2. A chunk without pages in use becomes free when an allocation needs one, or when it is returned to the pool.
//! - FC3. A chunk word is stored directly. A chunk of the tag that no word names is spare: it gets a number when the
//!   file system is opened or grows. No word may name a chunk outside the tag, and no chunk with pages in use may be
//!   without a word: a check reports that as damage, and the file system opens read-only. So growing and returning
//!   need no transaction over both tables.

mod idle;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ferrite_memory::Memory;
use ferrite_pool::layout::CHUNK_PAGES;
use parking_lot::Mutex;

use crate::format::layout::{BITMAP, CHUNK_INODES, ChunkKind, MapPages};
use crate::share::layout::shared_state::SharedState;
use crate::store::bits::{PageRun, append_bits, lowest, words_of};
use crate::store::clients::Clients;
use crate::store::deferred_frees::{DeferredFrees, Freed};
use crate::store::inode_map::InodeMap;
use crate::view::version::ChunkPlaces;
use ferrite_memory::shard::{Padded, SHARDS, own_shard};

/// A chunk in DRAM; its place and its kind are in the shared state.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ChunkState {
    /// A shard takes from it.
    is_current: AtomicBool,
    /// Nothing of it is allocated: clients of an earlier owner may still store to it (FG5), or it is being emptied
    /// (FE2).
    is_barred: AtomicBool,
    /// The free pages, and never fewer: added before their bits are cleared, and subtracted after they are set.
    free: AtomicU32,
    bitmap: [AtomicU64; 8],
    inodes: OnceLock<Box<InodeMap>>,
}

/// The chunks that a thread allocates from.
#[derive(Debug, Default)]
struct SpaceShard {
    data: Option<u64>,
    index: Option<u64>,
    inodes: Option<u64>,
}

/// All chunks.
#[derive(Debug)]
pub(crate) struct ChunkSpace {
    pub map: MapPages,
    pub shared_state: Arc<SharedState>,
    clients: Arc<dyn Clients>,
    chunks: Box<[ChunkState]>,
    shards: [Padded<Mutex<SpaceShard>>; SHARDS],
    hint: AtomicU64,
    /// Freed, and maybe still read from.
    pub deferred_frees: DeferredFrees,
    /// Held while space is freed for a change that found none, and how often some was freed.
    pub making: Mutex<()>,
    pub made: AtomicU64,
}

impl ChunkSpace {
    /// Reads the chunks whose places are `bases`, by number. A read-only file system takes a chunk of an unknown kind for
    /// free; otherwise the place of its kind is the error.
    pub fn load(
        memory: &dyn Memory,
        map: MapPages,
        shared_state: &Arc<SharedState>,
        clients: &Arc<dyn Clients>,
        bases: &[u64],
        is_read_only: bool,
    ) -> Result<Self, u64> {
        let chunk = |(number, base): (usize, &u64)| {
            let at = map.descriptor(number as u64);
            let word = if *base == 0 { 0 } else { memory.load_word(at) };
            let kind = ChunkKind::from_word(word).or(is_read_only.then_some(ChunkKind::Free)).ok_or(at)?;
            shared_state.set_base(number as u64, *base);
            shared_state.set_kind(number as u64, kind);
            let bitmap: [u64; 8] = std::array::from_fn(|word| match kind {
                ChunkKind::Data | ChunkKind::Index => memory.load_word(at + BITMAP + word as u64 * 8),
                ChunkKind::Super => u64::MAX,
                ChunkKind::Free | ChunkKind::Inodes => 0,
            });
            let used: u32 = bitmap.iter().map(|word| word.count_ones()).sum();
            Ok(ChunkState {
                // A superpage is claimed whole until it is freed or divided.
                is_current: AtomicBool::new(kind == ChunkKind::Super),
                is_barred: AtomicBool::new(false),
                free: AtomicU32::new(CHUNK_PAGES as u32 - used),
                bitmap: bitmap.map(AtomicU64::new),
                inodes: OnceLock::new(),
            })
        };
        let chunks = bases.iter().enumerate().map(chunk).collect::<Result<_, u64>>()?;
        let (shards, shared_state, clients) = (Default::default(), Arc::clone(shared_state), Arc::clone(clients));
        Ok(Self {
            map,
            shared_state,
            clients,
            chunks,
            shards,
            hint: AtomicU64::new(0),
            deferred_frees: DeferredFrees::default(),
            making: Mutex::new(()),
            made: AtomicU64::new(0),
        })
    }

    /// Returns where `page` lies in the pool; `None` if there is no such page.
    #[inline]
    pub fn place(&self, page: u64) -> Option<u64> {
        self.shared_state.place(page)
    }

    /// Returns where inode `number` lies in the pool; `None` if there is no such inode.
    #[inline]
    pub fn inode_place(&self, number: u64) -> Option<u64> {
        self.shared_state.inode_place(number)
    }

    /// Numbers that chunks may have.
    pub fn chunks(&self) -> u64 {
        self.chunks.len() as u64
    }

    pub fn kind(&self, chunk: u64) -> Option<ChunkKind> {
        (self.shared_state.base(chunk) != 0)
            .then(|| ChunkKind::from_word(self.shared_state.kind(chunk)).expect("only kinds are stored"))
    }

    pub fn set_kind(&self, chunk: u64, kind: ChunkKind) {
        self.shared_state.set_kind(chunk, kind);
    }

    /// Gives `chunk` a place, or takes it away (0).
    pub fn set_base(&self, chunk: u64, base: u64) {
        self.shared_state.set_base(chunk, base);
    }

    /// Pages of `chunk` that are free, if it has pages.
    pub fn free_pages(&self, chunk: u64) -> u64 {
        self.chunks[chunk as usize].free.load(Ordering::Relaxed).into()
    }

    /// Takes up to `count` pages of kind `kind` from what this thread's shard has, into `runs`; how many are missing.
    pub fn take_current(&self, kind: ChunkKind, count: u64, runs: &mut Vec<PageRun>) -> u64 {
        let shard = self.shards[own_shard()].0.lock();
        match shard.current(kind) {
            Some(chunk) => self.take_of(kind, chunk, count, runs),
            None => count,
        }
    }

    /// Allocates up to `count` pages of `chunk`, if it is still of `kind`. Returns how many are missing. Another
    /// thread may have claimed a shared chunk (FC1); once a page of it is allocated no thread can.
    pub fn take_of(&self, kind: ChunkKind, chunk: u64, count: u64, runs: &mut Vec<PageRun>) -> u64 {
        let left = self.take_in(chunk, count, runs);
        if left == count || self.kind(chunk) == Some(kind) {
            return left;
        }
        let (strange, rest): (Vec<PageRun>, Vec<PageRun>) =
            runs.drain(..).partition(|run| run.page / CHUNK_PAGES == chunk);
        self.return_pages(&strange);
        *runs = rest;
        count
    }

    fn take_in(&self, chunk: u64, count: u64, runs: &mut Vec<PageRun>) -> u64 {
        let found = &self.chunks[chunk as usize];
        let mut left = count;
        for (index, word) in found.bitmap.iter().enumerate() {
            while left > 0 {
                let now = word.load(Ordering::Relaxed);
                let mask = lowest(!now, left);
                if mask == 0 {
                    break;
                }
                let mine = mask & !word.fetch_or(mask, Ordering::AcqRel);
                left -= u64::from(mine.count_ones());
                found.free.fetch_sub(mine.count_ones(), Ordering::Relaxed);
                append_bits(runs, chunk * CHUNK_PAGES + index as u64 * 64, mine);
            }
        }
        left
    }

    /// Has this thread's shard allocate from `chunk`; other threads may use its previous chunk.
    pub fn make_current(&self, kind: ChunkKind, chunk: u64) {
        let mut shard = self.shards[own_shard()].0.lock();
        if let Some(old) = shard.slot(kind).replace(chunk) {
            self.chunks[old as usize].is_current.store(false, Ordering::Release);
        }
    }

    /// Returns a chunk of `kind` with at least `pages` free pages, for this thread alone.
    pub fn find_partly_free(&self, kind: ChunkKind, pages: u64) -> Option<u64> {
        self.search(|number, chunk| {
            self.shared_state.kind(number) == kind as u64
                && chunk.may_give(kind)
                && u64::from(chunk.free.load(Ordering::Relaxed)) >= pages
                && !chunk.is_current.swap(true, Ordering::AcqRel)
        })
    }

    /// Any chunk of `kind` with a free page.
    pub fn find_any(&self, kind: ChunkKind) -> Option<u64> {
        self.search(|number, chunk| {
            self.shared_state.kind(number) == kind as u64
                && chunk.may_give(kind)
                && chunk.free.load(Ordering::Relaxed) > 0
        })
    }

    /// Gives the pages of `chunk`, all claimed, to the thread that is to take from it.
    pub fn open_pages(&self, chunk: u64) {
        let found = &self.chunks[chunk as usize];
        found.free.fetch_add(CHUNK_PAGES as u32, Ordering::Release);
        found.bitmap.iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// `chunk`, a superpage, is one of pages, all of them in use: who frees some gives them back.
    pub fn open_divided(&self, chunk: u64) {
        self.set_kind(chunk, ChunkKind::Data);
        self.chunks[chunk as usize].is_current.store(false, Ordering::Release);
    }

    /// Gives the pages of `chunk`, all claimed, back.
    pub fn unclaim(&self, chunk: u64) {
        self.open_pages(chunk);
        self.chunks[chunk as usize].is_current.store(false, Ordering::Release);
    }

    /// Numbers that no chunk has.
    pub fn absent(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.chunks()).filter(|chunk| self.kind(*chunk).is_none())
    }

    /// Returns the place of each chunk in the pool, with its number.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.chunks()).map(|number| (self.shared_state.base(number), number)).filter(|(base, _)| *base != 0)
    }

    /// Removes `chunk`, which is claimed: nothing of it is allocated any more.
    pub fn remove(&self, chunk: u64) {
        self.set_base(chunk, 0);
        self.set_kind(chunk, ChunkKind::Free);
        self.unclaim(chunk);
    }

    /// Returns true if there is a chunk of kind free.
    pub fn has_free(&self) -> bool {
        let is_free = |chunk| self.kind(chunk) == Some(ChunkKind::Free);
        (0..self.chunks()).any(|chunk| is_free(chunk) && self.chunks[chunk as usize].may_give(ChunkKind::Free))
    }

    /// Excludes every existing chunk from allocation, or no longer (FG5).
    pub fn bar(&self, barred: bool) {
        for (_, chunk) in self.places() {
            self.chunks[chunk as usize].is_barred.store(barred, Ordering::SeqCst);
        }
    }

    pub fn is_barred(&self, chunk: u64) -> bool {
        self.chunks[chunk as usize].is_barred()
    }

    fn search(&self, is_it: impl Fn(u64, &ChunkState) -> bool) -> Option<u64> {
        let (count, hint) = (self.chunks.len() as u64, self.hint.load(Ordering::Relaxed));
        let is_there = |number: &u64| self.shared_state.base(*number) != 0;
        let mut numbers = (0..count).map(|step| (hint + step) % count).filter(is_there);
        let found = numbers.find(|number| is_it(*number, &self.chunks[*number as usize]))?;
        self.hint.store(found, Ordering::Relaxed);
        Some(found)
    }

    /// Gives back what a committed change freed, when no reader can be copying from it.
    pub fn defer_frees(&self, freed: Freed) {
        self.deferred_frees.add(freed, &*self.clients, |ripe| self.return_freed(ripe));
    }

    /// Gives back at once all that waits for readers. The caller is not pinned.
    pub fn drain_deferred_frees(&self) {
        self.deferred_frees.drain(&*self.clients, |ripe| self.return_freed(ripe));
    }

    fn return_freed(&self, freed: &Freed) {
        self.return_pages(&freed.runs);
        // Where the medium is damaged two words may name a superpage.
        for chunk in freed.chunks.iter().filter(|chunk| self.kind(**chunk) == Some(ChunkKind::Super)) {
            self.set_kind(*chunk, ChunkKind::Free);
            self.unclaim(*chunk);
        }
    }

    /// Frees pages that no reader has seen.
    pub fn return_pages(&self, runs: &[PageRun]) {
        for run in runs {
            let found = &self.chunks[(run.page / CHUNK_PAGES) as usize];
            for (word, mask) in words_of(*run) {
                found.free.fetch_add(mask.count_ones(), Ordering::Relaxed);
                let was = found.bitmap[word].fetch_and(!mask, Ordering::AcqRel);
                // Where the medium is damaged two words may name a page.
                found.free.fetch_sub((mask & !was).count_ones(), Ordering::Relaxed);
            }
        }
    }

    /// Which inodes of `chunk` are in use; read when first asked for.
    pub fn inodes(&self, memory: &dyn Memory, chunk: u64) -> &InodeMap {
        let found = &self.chunks[chunk as usize];
        found.inodes.get_or_init(|| Box::new(InodeMap::load(memory, self.shared_state.base(chunk), chunk == 0)))
    }

    /// A free inode of the chunk that this thread takes from.
    pub fn take_inode(&self, memory: &dyn Memory) -> Option<u64> {
        let chunk = self.shards[own_shard()].0.lock().inodes?;
        self.inodes(memory, chunk).take().map(|slot| chunk * CHUNK_INODES + slot)
    }

    /// Returns a chunk with free inodes: if `alone`, for this thread alone, otherwise any.
    pub fn find_inodes(&self, memory: &dyn Memory, alone: bool) -> Option<u64> {
        (0..self.chunks()).find(|number| {
            let chunk = &self.chunks[*number as usize];
            self.kind(*number) == Some(ChunkKind::Inodes)
                && (!alone || !chunk.is_current.load(Ordering::Acquire))
                && self.inodes(memory, *number).free() > 0
                && (!alone || !chunk.is_current.swap(true, Ordering::AcqRel))
        })
    }

    /// Gives inode `number` back.
    pub fn return_inode(&self, memory: &dyn Memory, number: u64) {
        self.inodes(memory, number / CHUNK_INODES).return_slot(number % CHUNK_INODES);
    }

    /// The numbers of inodes in use.
    pub fn inodes_in_use<'a>(&'a self, memory: &'a dyn Memory) -> impl Iterator<Item = u64> + 'a {
        self.inodes_in_use_from(memory, 0)
    }

    /// The numbers of inodes in use, from `from` on, in ascending order.
    pub fn inodes_in_use_from<'a>(&'a self, memory: &'a dyn Memory, from: u64) -> impl Iterator<Item = u64> + 'a {
        let chunks = from / CHUNK_INODES..self.chunks();
        chunks
            .filter(|chunk| self.kind(*chunk) == Some(ChunkKind::Inodes))
            .flat_map(|chunk| self.inodes(memory, chunk).used().map(move |slot| chunk * CHUNK_INODES + slot))
            .skip_while(move |number| *number < from)
    }

    /// Inodes in use, of the chunks there are.
    pub fn inode_count(&self, memory: &dyn Memory) -> (u64, u64) {
        let chunks = (0..self.chunks()).filter(|chunk| self.kind(*chunk) == Some(ChunkKind::Inodes));
        chunks.fold((0, 0), |(used, free), chunk| {
            let now = u64::from(self.inodes(memory, chunk).free());
            (used + CHUNK_INODES - now, free + now)
        })
    }
}

impl SpaceShard {
    fn slot(&mut self, kind: ChunkKind) -> &mut Option<u64> {
        match kind {
            ChunkKind::Index => &mut self.index,
            ChunkKind::Inodes => &mut self.inodes,
            _ => &mut self.data,
        }
    }

    fn current(&self, kind: ChunkKind) -> Option<u64> {
        if kind == ChunkKind::Index { self.index } else { self.data }
    }
}
