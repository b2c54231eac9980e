//! Growing and shrinking: how pages, inodes and chunks are allocated when those at hand are used up.

use std::collections::BTreeSet;

use ferrite_memory::{Scheme, Span, planted, wait_for_pins};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};
use ferrite_pool::{Extent, Role, SpaceNeed, TagChange, Zone};

use crate::format::layout::{CHUNK_INODES, ChunkKind};
use crate::store::ChunkStore;
use crate::store::bits::PageRun;
use crate::store::change::FsChange;
use crate::{Error, Result};

/// Chunks that are taken from the pool at a time, at most.
const GROWTH_CHUNKS_MAX: u64 = 64;
/// Free pages for which a chunk is taken over by a thread.
const WORTH_TAKING: u64 = 64;

/// Free chunks that are kept in any case.
const KEPT_CHUNKS: u64 = 2;

/// Returns `extent` without the chunks that start at `gone`.
fn without(extent: Extent, gone: &BTreeSet<u64>) -> Vec<Extent> {
    if extent.role != Role::DATA {
        return vec![extent];
    }
    let chunks = (extent.page..extent.end()).step_by(CHUNK_PAGES as usize).filter(|page| !gone.contains(page));
    let mut left: Vec<Extent> = Vec::new();
    for page in chunks {
        match left.last_mut() {
            Some(last) if last.end() == page => last.pages += CHUNK_PAGES as u32,
            _ => left.push(Extent { page, pages: CHUNK_PAGES as u32, ..extent }),
        }
    }
    left
}

/// The part of the pool that stays free, and its least bytes.
const FREE_SHARE: u64 = 64;
const FREE_MIN: u64 = CHUNK / 8;

/// Bytes of content in the pool.
pub(crate) struct ContentSpace {
    /// Bytes that are free for content.
    pub free: u64,
    /// Bytes of pages with content.
    pub used: u64,
}

impl ChunkStore {
    /// Bytes that pages can be made of, counted no further than to `enough`.
    pub(crate) fn free_bytes_up_to(&self, enough: u64) -> u64 {
        let mut free = self.pool().space().idle_bytes_up_to(enough);
        for chunk in 0..self.space.chunks() {
            if free >= enough {
                return enough;
            }
            free += match self.space.kind(chunk) {
                Some(ChunkKind::Free) => CHUNK,
                Some(ChunkKind::Data) => self.space.free_pages(chunk) * PAGE,
                _ => 0,
            };
        }
        free.min(enough)
    }

    /// Returns the bytes of content in the pool, and those that are free for more.
    pub(crate) fn content_space(&self) -> ContentSpace {
        let mut content = ContentSpace { free: self.pool().space().idle_bytes_up_to(u64::MAX), used: 0 };
        for chunk in 0..self.space.chunks() {
            let free = match self.space.kind(chunk) {
                Some(ChunkKind::Free) => CHUNK,
                Some(ChunkKind::Data) => self.space.free_pages(chunk) * PAGE,
                Some(ChunkKind::Super) => 0,
                _ => continue,
            };
            content.free += free;
            content.used += CHUNK - free;
        }
        content
    }

    /// Bytes that stay free for writes and for pages that come back from SSDs, if there is a tier.
    pub(crate) fn free_bytes_wanted(&self) -> u64 {
        (self.memory().size() / FREE_SHARE).max(FREE_MIN)
    }

    /// Takes `count` pages, all or none, in DRAM.
    pub(crate) fn allocate_pages(&self, kind: ChunkKind, count: u64) -> Result<Vec<PageRun>> {
        let mut runs = Vec::with_capacity(1);
        let mut left = self.space.take_current(kind, count, &mut runs);
        while left > 0 {
            let found = match self.chunk_for(kind) {
                Ok(Some(chunk)) => {
                    self.space.make_current(kind, chunk);
                    self.space.take_current(kind, left, &mut runs)
                }
                Ok(None) => match self.space.find_any(kind) {
                    Some(chunk) => self.space.take_of(kind, chunk, left, &mut runs),
                    None => {
                        self.space.return_pages(&runs);
                        return Err(Error::NoSpace);
                    }
                },
                Err(error) => {
                    self.space.return_pages(&runs);
                    return Err(error);
                }
            };
            left = found;
        }
        Ok(runs)
    }

    /// Returns a chunk to allocate pages of `kind` from: for this thread alone, except if that would leave too much
    /// free space in index chunks.
    fn chunk_for(&self, kind: ChunkKind) -> Result<Option<u64>> {
        self.space.drain_deferred_frees();
        if let Some(chunk) = self.space.find_partly_free(kind, WORTH_TAKING) {
            return Ok(Some(chunk));
        }
        if kind == ChunkKind::Index
            && self.space.has_many(kind)
            && let Some(shared) = self.space.find_any(kind)
        {
            return Ok(Some(shared));
        }
        let Some(chunk) = self.claim_chunk()? else { return Ok(self.space.find_partly_free(kind, 1)) };
        self.dedicate(chunk, kind)?;
        self.space.open_pages(chunk);
        Ok(Some(chunk))
    }

    /// Claims an empty chunk, of this file system or from the pool. No reader uses it and no record can be replayed
    /// into it, whatever kind it had (FC1).
    pub(crate) fn claim_chunk(&self) -> Result<Option<u64>> {
        self.space.drain_deferred_frees();
        loop {
            if let Some(chunk) = self.space.claim_idle(self.memory()) {
                let retired = self.vacate(chunk);
                if retired.is_err() {
                    self.space.unclaim(chunk);
                }
                return retired.map(|()| Some(chunk));
            }
            match self.grow() {
                Ok(()) => {}
                Err(Error::NoSpace) if self.space.leave_idle() => {}
                Err(Error::NoSpace) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn vacate(&self, chunk: u64) -> Result<()> {
        let old = self.space.kind(chunk);
        self.space.set_kind(chunk, ChunkKind::Free);
        planted!("fs: hasty chunk" => return Ok(()));
        if matches!(old, Some(ChunkKind::Index | ChunkKind::Inodes)) {
            wait_for_pins();
            self.pool().retire()?;
        }
        Ok(())
    }

    /// Gives a claimed chunk its kind.
    fn dedicate(&self, chunk: u64, kind: ChunkKind) -> Result<()> {
        let result = self.try_dedicate(chunk, kind);
        if result.is_err() {
            self.space.unclaim(chunk);
        }
        result
    }

    fn try_dedicate(&self, chunk: u64, kind: ChunkKind) -> Result<()> {
        if kind == ChunkKind::Inodes {
            let at = self.place(chunk * CHUNK_PAGES)?;
            self.memory().zero(Span::new(at, CHUNK), Scheme::Nt);
            self.drain()?;
        }
        let mut change = FsChange::new(self);
        change.write_kind(chunk, kind);
        change.commit()?;
        let claimed = self.space.known_inodes(chunk);
        self.space.set_kind(chunk, kind);
        if kind == ChunkKind::Inodes {
            self.space.free_inodes(chunk, claimed);
        }
        Ok(())
    }

    /// A free inode's number, taken in DRAM.
    pub(crate) fn allocate_inode_number(&self) -> Result<u64> {
        loop {
            if let Some(number) = self.space.take_inode(self.memory()) {
                return Ok(number);
            }
            let is_shared = self.space.has_many(ChunkKind::Inodes);
            let found = self.space.find_inodes(self.memory(), !is_shared);
            let chunk = match found {
                Some(chunk) => chunk,
                None => match self.claim_chunk()? {
                    Some(chunk) => {
                        self.dedicate(chunk, ChunkKind::Inodes)?;
                        chunk
                    }
                    None => self.space.find_inodes(self.memory(), false).ok_or(Error::NoSpace)?,
                },
            };
            self.space.make_current(ChunkKind::Inodes, chunk);
        }
    }

    /// Takes chunks from the pool: a sixteenth of what it has, or as many as there are (FC3).
    pub(crate) fn grow(&self) -> Result<()> {
        let mut tag = self.tag.lock();
        if self.space.has_free() {
            return Ok(());
        }
        let numbers: Vec<u64> = self.space.absent().collect();
        let have = self.space.chunks() - numbers.len() as u64;
        let mut wanted = (have / 16).clamp(1, GROWTH_CHUNKS_MAX).min(numbers.len() as u64);
        while wanted > 0 {
            let need = SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: wanted * CHUNK };
            let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[need], keep: &tag.extents };
            match self.pool().change_tag(&tag, &change, |_| Ok(())) {
                Ok(grown) => {
                    *tag = grown;
                    return self.adopt_spare(&tag);
                }
                Err(ferrite_pool::Error::Full { .. }) => wanted /= 2,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::NoSpace)
    }

    /// Returns free chunks to the pool while there are more than a few. Returns true if it did. A chunk word is
    /// cleared first: a crash then leaves a spare chunk (FC3).
    ///
    /// Not while clients are connected: space under a grant stays allocated until the grant ends, and would not even
    /// belong to this file system.
    pub(crate) fn step_space(&self) -> Result<bool> {
        self.return_chunks(|all| KEPT_CHUNKS.max(all / 16))
    }

    /// The same, where others find no space: all of it.
    pub(crate) fn return_all_chunks(&self) -> Result<bool> {
        self.return_chunks(|_| 0)
    }

    /// Returns true if chunks can be given to others: not while clients have all of them mapped.
    pub(crate) fn may_return_chunks(&self) -> bool {
        !self.clients.has_sessions() && !self.clients.has_orphaned_clients()
    }

    /// Returns idle chunks to the pool, except for `kept` of all.
    fn return_chunks(&self, kept: impl FnOnce(u64) -> u64) -> Result<bool> {
        self.space.drain_deferred_frees();
        if !self.may_return_chunks() {
            return Ok(false);
        }
        let _pass = self.gate.pass();
        // Who is giving some is waited for: they are neither idle here nor free there until that is done.
        let mut tag = self.tag.lock();
        let (idle, all) = self.space.idle_count();
        let kept = kept(all);
        if idle <= kept {
            return Ok(false);
        }
        let mut gone = BTreeSet::new();
        while gone.len() as u64 + kept < idle && gone.len() < GROWTH_CHUNKS_MAX as usize {
            let Some(chunk) = self.space.claim_idle(self.memory()) else { break };
            match self.clear_chunk_word(chunk) {
                Ok(page) => _ = gone.insert(page),
                Err(error) => {
                    self.space.unclaim(chunk);
                    return Err(error);
                }
            }
            self.space.remove(chunk);
        }
        if gone.is_empty() {
            // The idle chunks are those that threads allocate from.
            return Ok(self.space.leave_idle());
        }
        wait_for_pins();
        let keep: Vec<Extent> = tag.extents.iter().flat_map(|extent| without(*extent, &gone)).collect();
        let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[], keep: &keep };
        match self.pool().change_tag(&tag, &change, |_| Ok(())) {
            Ok(smaller) => *tag = smaller,
            Err(why) => {
                // If nothing was changed, they are its own still.
                self.pool().check_poison()?;
                self.adopt_spare(&tag)?;
                return Err(why.into());
            }
        }
        Ok(true)
    }

    /// Clears the word that names `chunk`, which is claimed. Returns the chunk's first page in the pool.
    fn clear_chunk_word(&self, chunk: u64) -> Result<u64> {
        let page = self.place(chunk * CHUNK_PAGES)? / PAGE;
        let word = self.space.map.chunk_word(chunk);
        self.memory().store_word(word, 0);
        self.memory().persist(Span::new(word, 8))?;
        Ok(page)
    }

    /// Returns how many inodes `free_bytes` could hold, in chunks that are not inode chunks yet.
    pub(crate) fn inodes_of(&self, free_bytes: u64) -> u64 {
        free_bytes / CHUNK * CHUNK_INODES
    }
}
