//! A change of a file system: one pool transaction, with the pages that it takes and frees.
//!
//! Pages are allocated in DRAM first, and marked by the transaction. Freed pages become free in DRAM after the commit.
//! Without a commit, nothing has happened.

use ferrite_memory::{Span, planted};
use ferrite_pool::Transaction;
use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::format::inode::Inode;
use crate::format::layout::{BITMAP, ChunkKind};
use crate::format::leaf::PageWriter;
use crate::format::segment::{SegmentNo, Slot};
use crate::format::word::IndexWord;
use crate::share::layout::shared_state::stripe;
use crate::store::ChunkStore;
use crate::store::bits::{PageRun, words_of};
use crate::store::deferred_frees::Freed;
use crate::store::slot_trim::TrimScope;
use crate::{Error, Result};

/// The most pages that one change frees, so that their bits fit a record however they are scattered. Few in tests, so
/// that small files too are freed by steps.
pub(crate) const FREED_PAGES_MAX: u64 = if cfg!(test) { 16 } else { 1024 };

/// Bytes of each part of an inode.
const LINE: usize = 64;

pub(crate) struct FsChange<'fs> {
    store: &'fs ChunkStore,
    /// There until it is committed.
    transaction: Option<Transaction<'fs>>,
    taken: Vec<PageRun>,
    freed: Vec<PageRun>,
    /// Slots that words name from now on, or no more.
    named_slots: Vec<Slot>,
    freed_slots: Vec<Slot>,
    freed_chunks: Vec<u64>,
    /// The pages that stay of a divided superpage.
    divided: Option<PageRun>,
    freed_inodes: Vec<u64>,
    taken_inode: Option<u64>,
    taken_orphan: Option<u32>,
    freed_orphans: Vec<u32>,
    /// The lock of the file whose pages are freed, if all are of one file.
    stripe: Option<u64>,
}

impl<'fs> FsChange<'fs> {
    pub fn new(store: &'fs ChunkStore) -> Self {
        Self {
            store,
            transaction: Some(store.pool().transaction()),
            taken: Vec::new(),
            freed: Vec::new(),
            named_slots: Vec::new(),
            freed_slots: Vec::new(),
            freed_chunks: Vec::new(),
            divided: None,
            freed_inodes: Vec::new(),
            taken_inode: None,
            taken_orphan: None,
            freed_orphans: Vec::new(),
            stripe: None,
        }
    }

    fn transaction(&mut self) -> &mut Transaction<'fs> {
        self.transaction.as_mut().expect("a commit consumes the change")
    }

    /// Writes `bytes` at `at` of the pool.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.transaction().write(at, bytes);
    }

    pub fn write_word(&mut self, at: u64, word: u64) {
        self.transaction().write(at, &word.to_le_bytes());
    }

    /// Zeros `span` of the pool, which transactions alone write.
    pub fn zero(&mut self, span: Span) {
        self.transaction().zero(span);
    }

    /// Writes the head of `inode`.
    pub fn write_head(&mut self, inode: &mut Inode) {
        let (at, bytes) = inode.head_bytes();
        self.write(at, &bytes);
    }

    /// Writes the head and the roots of `inode`.
    pub fn write_roots(&mut self, inode: &mut Inode) {
        let (at, bytes) = inode.roots_bytes();
        self.write(at, &bytes);
    }

    /// Writes all of `inode` that transactions write: its head, and those words of its other lines that differ.
    /// Leaving out equal words is safe for the only user of the inode, because replay ends with the last write.
    pub fn write_inode(&mut self, inode: &mut Inode) {
        let ((at, bytes), mut there) = (inode.all_bytes(), [0; 192]);
        self.store.memory().load(at, &mut there);
        self.write(at, &bytes[..LINE]);
        for line in [LINE..2 * LINE, 2 * LINE..3 * LINE] {
            let is_other = |word: &usize| bytes[*word..word + 8] != there[*word..word + 8];
            let mut words = line.step_by(8).filter(is_other);
            if let Some(first) = words.next() {
                let last = words.next_back().unwrap_or(first);
                self.write(at + first as u64, &bytes[first..last + 8]);
            }
        }
    }

    /// Takes `count` pages for file content, all or none.
    pub fn allocate_data(&mut self, count: u64) -> Result<Vec<PageRun>> {
        let runs = self.store.allocate_pages(ChunkKind::Data, count)?;
        self.mark(&runs);
        Ok(runs)
    }

    /// Takes a page for words or names and zeros it; its number and its place in the pool.
    pub fn allocate_index_page(&mut self) -> Result<(u64, u64)> {
        let runs = self.store.allocate_pages(ChunkKind::Index, 1)?;
        self.mark(&runs);
        let at = self.store.place(runs[0].page)?;
        self.zero(Span::new(at, PAGE));
        Ok((runs[0].page, at))
    }

    fn mark(&mut self, runs: &[PageRun]) {
        self.taken.extend(runs);
        for run in runs {
            self.forget_shadows(*run);
            let bitmap = self.bitmap(*run);
            words_of(*run).for_each(|(word, mask)| self.transaction().set(bitmap + word as u64 * 8, mask));
        }
    }

    /// Frees a page.
    pub fn free_page(&mut self, page: u64) {
        match self.freed.last_mut() {
            Some(last) if last.page + last.pages == page && !page.is_multiple_of(CHUNK_PAGES) => last.pages += 1,
            Some(last) if last.page == page + 1 && !last.page.is_multiple_of(CHUNK_PAGES) => {
                (last.page, last.pages) = (page, last.pages + 1);
            }
            _ => self.freed.push(PageRun { page, pages: 1 }),
        }
    }

    /// Makes a superpage a chunk of pages: the first `count` are in use, the others are freed.
    pub fn divide_super(&mut self, page: u64, count: u64) {
        self.write_kind(page / CHUNK_PAGES, ChunkKind::Data);
        let kept = PageRun { page, pages: count };
        let bitmap = self.bitmap(kept);
        words_of(kept).for_each(|(word, mask)| self.transaction().set(bitmap + word as u64 * 8, mask));
        self.divided = Some(kept);
    }

    /// Notes what `chunk` is used for.
    pub fn write_kind(&mut self, chunk: u64, kind: ChunkKind) {
        self.write_word(self.store.space.map.descriptor(chunk), kind as u64);
    }

    /// Frees what `word` names, if that has pages of file content; how many.
    pub fn free_word(&mut self, word: IndexWord) -> u64 {
        match word.named() {
            crate::format::word::NamedBy::Page(page) => {
                self.free_page(page);
                1
            }
            crate::format::word::NamedBy::Super(page) => {
                self.freed_chunks.push(page / CHUNK_PAGES);
                CHUNK_PAGES
            }
            crate::format::word::NamedBy::Away(page) => {
                self.freed_slots.push(page.slot);
                1
            }
            _ => 0,
        }
    }

    /// Frees the inode with this number, whose mode it sets to 0 by itself.
    pub fn free_inode(&mut self, number: u64) {
        self.freed_inodes.push(number);
    }

    /// Notes the orphan word that it has allocated.
    pub fn note_orphan(&mut self, word: u32) {
        self.taken_orphan = Some(word);
    }

    /// Notes an orphan word that it frees; the caller zeroes it.
    pub fn free_orphan(&mut self, word: u32) {
        self.freed_orphans.push(word);
    }

    /// Allocates a free inode, ready to be filled in.
    pub fn take_inode(&mut self) -> Result<Inode> {
        let number = self.store.allocate_inode_number()?;
        self.taken_inode = Some(number);
        Ok(self.store.load_any(crate::Ino(number)).ok_or(Error::Stale)?.with_next_generation(self.store.now()))
    }

    /// Notes that a word names `slot`, whose bytes are durable (TI1).
    pub fn name_slot(&mut self, slot: Slot) {
        self.named_slots.push(slot);
    }

    /// Returns how many pages it frees, because the bytes of one change are bounded.
    pub fn freed_pages(&self) -> u64 {
        let pages = self.freed.iter().map(|run| run.pages).sum::<u64>();
        pages + (self.freed_chunks.len() + self.freed_slots.len()) as u64
    }

    /// Returns true if it frees pages or superpages.
    pub fn frees_any(&self) -> bool {
        !self.freed.is_empty() || !self.freed_chunks.is_empty() || !self.freed_slots.is_empty()
    }

    fn bitmap(&self, run: PageRun) -> u64 {
        self.store.space.map.descriptor(run.page / CHUNK_PAGES) + BITMAP
    }

    /// Refuses what a damaged medium would have freed: pages and superpages that there are not.
    fn ensure_there(&self) -> Result<()> {
        let kind = |chunk| self.store.space.kind(chunk);
        let is_paged = |run: &PageRun| matches!(kind(run.page / CHUNK_PAGES), Some(ChunkKind::Data | ChunkKind::Index));
        let divided = self.divided.iter().map(|kept| kept.page / CHUNK_PAGES);
        let mut supers = self.freed_chunks.iter().copied().chain(divided);
        let has_slot = |slot: &Slot| self.store.slots.as_ref().is_some_and(|slots| slots.has(*slot));
        let are_there = self.freed.iter().all(is_paged)
            && supers.all(|chunk| kind(chunk) == Some(ChunkKind::Super))
            && self.freed_slots.iter().all(has_slot);
        if are_there { Ok(()) } else { Err(self.store.corrupt("the number of a page that is to be freed", 0)) }
    }

    /// Sets the word at `at`, of `inode` or of a page of its index.
    pub fn set_word(&mut self, inode: &mut Inode, at: u64, word: IndexWord) {
        self.write_word(at, word.0);
        inode.note_word(at, word);
    }

    /// Commits with the head of `inode`. After a failure, reloads `inode`.
    pub fn commit_head(mut self, inode: &mut Inode) -> Result<()> {
        self.write_head(inode);
        self.commit_inode(inode)
    }

    /// Commits with the head and the roots of `inode`. After a failure, reloads `inode`.
    pub fn commit_roots(mut self, inode: &mut Inode) -> Result<()> {
        self.write_roots(inode);
        self.commit_inode(inode)
    }

    fn commit_inode(mut self, inode: &mut Inode) -> Result<()> {
        let store = self.store;
        self.stripe = Some(stripe(inode.ino));
        let committed = self.commit();
        if committed.is_err()
            && let Some(before) = store.load_any(inode.ino)
        {
            *inode = before;
        }
        committed
    }

    /// Writes the bits of slots, and the sequences of segments in which the first one is named (TI2).
    fn write_slots(&mut self) {
        if self.named_slots.is_empty() && self.freed_slots.is_empty() {
            return;
        }
        let Some(slots) = &self.store.slots else { return };
        let table = &slots.set().table;
        for slot in self.named_slots.clone() {
            let (at, mask) = table.named_bit(slot);
            planted!("fs: unmarked slot" => continue);
            self.transaction().set(at, mask);
        }
        for slot in self.freed_slots.clone() {
            let (at, mask) = table.named_bit(slot);
            self.transaction().clear(at, mask);
        }
        let mut segments: Vec<SegmentNo> = self.named_slots.iter().map(|slot| slot.segment()).collect();
        segments.dedup();
        for segment in segments {
            let (at, sequence) = (table.sequence(segment), slots.sequence_of(segment));
            if self.store.memory().load_word(at) != sequence {
                self.write_word(at, sequence);
            }
        }
    }

    /// Counts what [`FsChange::write_slots`] wrote and the commit made durable.
    fn note_slots(&mut self) {
        let Some(slots) = &self.store.slots else { return };
        self.named_slots.drain(..).for_each(|slot| slots.note_named(slot, true));
        self.freed_slots.drain(..).for_each(|slot| slots.note_named(slot, false));
        self.freed.iter().for_each(|run| self.forget_shadows(*run));
        for chunk in &self.freed_chunks {
            self.forget_shadows(PageRun { page: chunk * CHUNK_PAGES, pages: CHUNK_PAGES });
        }
    }

    /// A planted bug: trims what this change frees before it is durable.
    fn trim_hastily(&mut self) {
        self.note_slots();
        let Some(slots) = &self.store.slots else { return };
        // The disk of a test ignores some trims.
        (0..4).for_each(|_| _ = slots.trim_next(SegmentNo(0), TrimScope::Free));
    }

    /// Forgets the shadows of `run`, whose pages are allocated or free, and marks them as stored to: what is copied of
    /// them counts only from now on (TI4).
    fn forget_shadows(&self, run: PageRun) {
        let Some(slots) = &self.store.slots else { return };
        for place in (run.page..run.page + run.pages).filter_map(|page| self.store.space.place(page)) {
            slots.forget_shadow(place);
            self.store.space.shared_state.note_stored(place, PAGE as usize);
        }
    }

    /// Commits: durable and visible on return, or an error.
    pub fn commit(mut self) -> Result<()> {
        self.ensure_there()?;
        for chunk in self.freed_chunks.clone() {
            self.write_kind(chunk, ChunkKind::Free);
        }
        for run in std::mem::take(&mut self.freed) {
            let bitmap = self.bitmap(run);
            planted!("fs: leaked page" => continue);
            words_of(run).for_each(|(word, mask)| self.transaction().clear(bitmap + word as u64 * 8, mask));
            self.freed.push(run);
        }
        self.write_slots();
        planted!("fs: hasty trim" => self.trim_hastily());
        self.transaction.take().expect("a commit consumes the change").commit()?;
        self.note_slots();
        self.taken.clear();
        (self.taken_inode, self.taken_orphan) = (None, None);
        self.freed_orphans.drain(..).for_each(|word| self.store.orphans.return_word(word));
        let space = &self.store.space;
        let (mut runs, chunks) = (std::mem::take(&mut self.freed), std::mem::take(&mut self.freed_chunks));
        if let Some(kept) = self.divided.take() {
            space.open_divided(kept.page / CHUNK_PAGES);
            let behind = PageRun { page: kept.page + kept.pages, pages: CHUNK_PAGES - kept.pages };
            runs.extend(Some(behind).filter(|run| run.pages > 0));
        }
        if !runs.is_empty() || !chunks.is_empty() {
            space.defer_frees(Freed { runs, chunks, stripe: self.stripe });
        }
        for number in std::mem::take(&mut self.freed_inodes) {
            space.return_inode(self.store.memory(), number);
        }
        Ok(())
    }
}

impl PageWriter for FsChange<'_> {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
    }

    fn write_word(&mut self, at: u64, word: u64) {
        self.write_word(at, word);
    }
}

impl Drop for FsChange<'_> {
    fn drop(&mut self) {
        self.store.space.return_pages(&self.taken);
        if let Some(number) = self.taken_inode {
            self.store.space.return_inode(self.store.memory(), number);
        }
        if let Some(word) = self.taken_orphan {
            self.store.orphans.return_word(word);
        }
    }
}
