//! Empty chunks, and which allocations may use them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ferrite_memory::Memory;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use super::{ChunkKind, ChunkSpace, ChunkState, InodeMap};
use crate::format::layout::{CHUNK_INODES, INODE};

/// The part of all that may be free in chunks of names and words, or of inodes, before threads share them.
const SHARE: u64 = 64;

impl ChunkSpace {
    /// A chunk with nothing in it, claimed whole: the caller gives it a kind, or [`ChunkSpace::unclaim`]s it.
    pub fn claim_idle(&self, memory: &dyn Memory) -> Option<u64> {
        let kind = |number| self.kind(number);
        let all_free = |chunk: &ChunkState| chunk.free.load(Ordering::Relaxed) == CHUNK_PAGES as u32;
        self.search(|number, chunk| kind(number) == Some(ChunkKind::Free) && chunk.claim())
            .or_else(|| {
                let is_paged = |number| matches!(kind(number), Some(ChunkKind::Data | ChunkKind::Index));
                self.search(|number, chunk| is_paged(number) && all_free(chunk) && chunk.claim())
            })
            .or_else(|| self.claim_inodes(memory))
    }

    /// A chunk of inodes that are all free, claimed whole. The first one, which has the root directory, never is.
    fn claim_inodes(&self, memory: &dyn Memory) -> Option<u64> {
        (1..self.chunks()).find(|number| {
            let chunk = &self.chunks[*number as usize];
            if self.kind(*number) != Some(ChunkKind::Inodes) || !chunk.claim() {
                return false;
            }
            let claimed = self.inodes(memory, *number).claim();
            if !claimed {
                self.unclaim(*number);
            }
            claimed
        })
    }

    /// Returns which inodes of `chunk` are in use, if that was read. All are, if the chunk is claimed whole.
    pub fn known_inodes(&self, chunk: u64) -> Option<&InodeMap> {
        self.chunks[chunk as usize].inodes.get().map(|inodes| &**inodes)
    }

    /// All inodes of `chunk`, which is claimed and zeroed, are free, and so are its pages for the next claim. `claimed` was
    /// known before the chunk became one of inodes: what is read later are zeros.
    pub fn free_inodes(&self, chunk: u64, claimed: Option<&InodeMap>) {
        claimed.into_iter().for_each(InodeMap::free_all);
        self.open_pages(chunk);
    }

    /// Returns true if so much space in chunks of `kind` is free, and unusable for content, that threads should share
    /// them. Counts inodes only if they are known.
    pub fn has_many(&self, kind: ChunkKind) -> bool {
        let (mut free, mut all) = (0, 0);
        for (_, number) in self.places() {
            let chunk = &self.chunks[number as usize];
            all += CHUNK;
            free += match kind {
                _ if self.shared_state.kind(number) != kind as u64 => 0,
                ChunkKind::Inodes => chunk.inodes.get().map_or(0, |inodes| u64::from(inodes.free()) * INODE),
                _ => self.free_pages(number) * PAGE,
            };
        }
        free > all / SHARE
    }

    /// Ends each thread's claim on an empty chunk. Returns true if there was one.
    pub fn leave_idle(&self) -> bool {
        let is_idle = |chunk: u64| match self.kind(chunk) {
            Some(ChunkKind::Data | ChunkKind::Index) => self.free_pages(chunk) == CHUNK_PAGES,
            Some(ChunkKind::Inodes) => self.has_only_free_inodes(chunk),
            _ => false,
        };
        let mut left = false;
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            for kind in [ChunkKind::Data, ChunkKind::Index, ChunkKind::Inodes] {
                if let Some(chunk) = shard.slot(kind).take_if(|chunk| is_idle(*chunk)) {
                    self.chunks[chunk as usize].is_current.store(false, Ordering::Release);
                    left = true;
                }
            }
        }
        left
    }

    /// Returns chunks of content that are not empty, the emptiest first: at most `most`, and as many as the others
    /// have room for. Nothing of them is allocated until they are [reopened](ChunkSpace::reopen) (FE2).
    pub fn close_sparse(&self, most: u64) -> BTreeSet<u64> {
        let of_content = |number: &u64| self.kind(*number) == Some(ChunkKind::Data);
        let numbers: Vec<u64> = self.places().map(|(_, number)| number).filter(of_content).collect();
        let room: u64 = numbers.iter().map(|number| self.free_pages(*number)).sum();
        let mut sparse: Vec<(u64, u64)> = numbers.iter().map(|number| (self.free_pages(*number), *number)).collect();
        sparse.retain(|(free, _)| (1..CHUNK_PAGES).contains(free));
        sparse.sort_unstable_by_key(|(free, _)| std::cmp::Reverse(*free));
        let is_closed = |number: &u64| {
            let chunk = &self.chunks[*number as usize];
            let is_ours = chunk.may_give(ChunkKind::Data) && !chunk.is_current.swap(true, Ordering::AcqRel);
            if is_ours {
                chunk.is_barred.store(true, Ordering::SeqCst);
            }
            is_ours
        };
        // Each adds its free pages to the others' room, and needs room for its used pages.
        let count = most.min(room / CHUNK_PAGES) as usize;
        sparse.into_iter().map(|(_, number)| number).filter(is_closed).take(count).collect()
    }

    /// Ends [`ChunkSpace::close_sparse`]. Returns true if one of the chunks is empty.
    pub fn reopen(&self, closed: &BTreeSet<u64>) -> bool {
        for number in closed {
            let chunk = &self.chunks[*number as usize];
            chunk.is_barred.store(false, Ordering::SeqCst);
            chunk.is_current.store(false, Ordering::Release);
        }
        closed.iter().any(|number| self.free_pages(*number) == CHUNK_PAGES)
    }

    /// Chunks with nothing in them, and all.
    pub fn idle_count(&self) -> (u64, u64) {
        (0..self.chunks()).filter_map(|chunk| Some((chunk, self.kind(chunk)?))).fold(
            (0, 0),
            |(idle, all), (chunk, kind)| {
                let is_idle = match kind {
                    ChunkKind::Free => true,
                    ChunkKind::Data | ChunkKind::Index => self.free_pages(chunk) == CHUNK_PAGES,
                    ChunkKind::Inodes => self.has_only_free_inodes(chunk),
                    ChunkKind::Super => false,
                };
                (idle + u64::from(is_idle), all + 1)
            },
        )
    }

    /// Returns true if `chunk` holds inodes and is known to have none in use.
    pub fn has_only_free_inodes(&self, chunk: u64) -> bool {
        let inodes = self.chunks[chunk as usize].inodes.get();
        chunk > 0 && inodes.is_some_and(|inodes| u64::from(inodes.free()) == CHUNK_INODES)
    }
}

impl ChunkState {
    /// Returns true if what is free in it is kept from everybody, but pages of words.
    pub(super) fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Acquire)
    }

    /// Returns true if its free pages, of kind `kind`, may be allocated. No client stores to index pages.
    pub(super) fn may_give(&self, kind: ChunkKind) -> bool {
        kind == ChunkKind::Index || !self.is_barred()
    }

    /// Takes all its pages, if all are free.
    fn claim(&self) -> bool {
        if !self.may_give(ChunkKind::Free) || self.is_current.swap(true, Ordering::AcqRel) {
            return false;
        }
        for index in 0..self.bitmap.len() {
            let was = self.bitmap[index].compare_exchange(0, u64::MAX, Ordering::AcqRel, Ordering::Relaxed);
            if was.is_err() {
                self.bitmap[..index].iter().for_each(|word| word.store(0, Ordering::Release));
                self.is_current.store(false, Ordering::Release);
                return false;
            }
        }
        self.free.fetch_sub(CHUNK_PAGES as u32, Ordering::Relaxed);
        true
    }
}
