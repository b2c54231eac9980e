//! A transaction: changes to the pool's own words that happen together or not at all. Its payload consists of the
//! operations of [`operation`](crate::operation).

use std::ops::Range;

use ferrite_memory::Span;

use crate::checked_record::RecordDraft;
use crate::extent::{Extent, Zone, page_at};
use crate::freeze::frozen_services::TransactionPass;
use crate::host_space::ProgressWatch;
use crate::lane::PAYLOAD_BYTES_MAX;
use crate::layout::{CHUNK_PAGES, PAGE, bitmap_at, kind_at};
use crate::operation::{CLEAR, FILL, FILL_BYTES_MAX, KIND_SHIFT, OPERATION, SET, WRITE, may_change};
use crate::page_allocator::{ChunkUse, SpaceNeed};
use crate::pool::Pool;
use crate::reserved_space::ReservedSpace;
use crate::tag::SLOT_BYTES;
use crate::{Error, Result};

/// Changes that are gathered in DRAM and committed with one fence. Dropping this without a commit discards them.
#[derive(Debug)]
pub struct Transaction<'pool> {
    pool: &'pool Pool,
    draft: RecordDraft,
    taken: Vec<Extent>,
    freed: Vec<Extent>,
    /// Superpages whose pages this frees one by one: they count as pages of the normal zone from then on.
    split: Vec<u64>,
    /// Dropped last: while the pool is frozen no transaction is open (freeze F1).
    _pass: TransactionPass<'pool>,
}

impl Pool {
    /// Starts a transaction. Waits while the pool is frozen. The caller must not hold a lock that other threads acquire
    /// during a transaction.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }
}

impl<'pool> Transaction<'pool> {
    fn new(pool: &'pool Pool) -> Self {
        let _pass = pool.freezers().pass();
        Self { pool, draft: RecordDraft::default(), taken: Vec::new(), freed: Vec::new(), split: Vec::new(), _pass }
    }

    /// Writes `bytes` at `at`. Both are multiples of 8. Until the space is free again only transactions may write it,
    /// because replay may write it once more (lane L6).
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "transactions write whole words");
        let span = Span::new(at, bytes.len() as u64);
        assert!(may_change(span, self.pool.memory().size()), "a transaction outside of what they may write: {span:?}");
        self.operation(WRITE, at, bytes.len() as u64);
        self.draft.push(bytes);
    }

    /// Sets the bits of `mask` in the word at `at`. Other transactions may change other bits of the word at the same
    /// time. See [`Transaction::write`].
    pub fn set(&mut self, at: u64, mask: u64) {
        self.change_bits(SET, at, mask);
    }

    /// Clears the bits of `mask` in the word at `at`, as [`Transaction::set`] does.
    pub fn clear(&mut self, at: u64, mask: u64) {
        self.change_bits(CLEAR, at, mask);
    }

    fn change_bits(&mut self, kind: u64, at: u64, mask: u64) {
        let span = Span::new(at, 8);
        let is_word = at.is_multiple_of(8) && may_change(span, self.pool.memory().size());
        assert!(is_word, "a transaction outside of what they may write: {span:?}");
        self.operation(kind, at, mask);
    }

    /// Fills `span`, 1 MiB at most, with zeros, which takes 16 bytes of payload. See [`Transaction::write`].
    pub fn zero(&mut self, span: Span) {
        let fits = span.len <= FILL_BYTES_MAX && may_change(span, self.pool.memory().size());
        assert!(fits && span.aligned_to(8), "a transaction outside of what they may write: {span:?}");
        self.operation(FILL, span.at, span.len);
    }

    /// Takes space for `needs`, which the host reserves first. The space is in use after the commit, and free again if
    /// the transaction is dropped.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Medium`] if the host cannot reserve the space.
    pub fn take(&mut self, needs: &[SpaceNeed]) -> Result<Vec<Extent>> {
        self.take_watched(needs, &mut |_| true)
    }

    /// Takes space for `needs` as [`Transaction::take`] does; `watch` may stop it.
    ///
    /// # Errors
    /// As [`Transaction::take`]; [`Error::Cancelled`] if `watch` returns false.
    pub fn take_watched(&mut self, needs: &[SpaceNeed], watch: ProgressWatch<'_>) -> Result<Vec<Extent>> {
        let extents = self.pool.take_reserved(needs, watch)?;
        self.taken.extend(&extents);
        self.mark_all(&extents, true);
        Ok(extents)
    }

    /// Adopts `reserved` space: it is in use after the commit, and free again if the transaction is dropped.
    pub fn adopt(&mut self, reserved: ReservedSpace<'pool>) -> Vec<Extent> {
        let extents = reserved.into_extents();
        self.taken.extend(&extents);
        self.mark_all(&extents, true);
        extents
    }

    /// Frees `extents` on commit.
    pub fn free(&mut self, extents: &[Extent]) {
        self.freed.extend(extents);
        self.mark_all(extents, false);
    }

    /// Takes `count` pages from `dropped`, which this transaction frees, and removes them from that list. Returns none
    /// if no part of it has as many pages without a grant (grant G2). The caller may store into the pages at once (tag
    /// table T6).
    pub(crate) fn take_of(&mut self, dropped: &mut Vec<Extent>, count: usize) -> Result<Vec<Extent>> {
        let fits = |extent: &Extent| {
            let part = last_part(*extent);
            part.pages as usize >= count && !self.pool.grants().touch(part)
        };
        let Some(index) = dropped.iter().rposition(fits) else { return Ok(Vec::new()) };
        let (whole, part) = (dropped[index], last_part(dropped[index]));
        // The caller stores there now, so no older record may be replayed over it (lane L6).
        self.pool.retire()?;
        let part = self.in_pages(part);
        let taken = (part.page..part.page + count as u64).map(|page| page_at(page * PAGE)).collect();
        let before = Extent { pages: whole.pages - part.pages, ..whole };
        let behind = Extent { page: part.page + count as u64, pages: part.pages - count as u32, ..part };
        dropped.splice(index..=index, [before, behind].into_iter().filter(|left| left.pages > 0));
        Ok(taken)
    }

    /// Returns true if the record itself has to carry the content of `pages`: they are in use until the commit, and the
    /// record has room for them and for a slot (tag table T6).
    pub(crate) fn brings(&self, pages: &[Extent]) -> bool {
        let is_taken = |page: &Extent| self.taken.iter().any(|taken| (taken.page..taken.end()).contains(&page.page));
        let bytes = pages.len() * (OPERATION + PAGE as usize) + 2 * (OPERATION + SLOT_BYTES);
        !pages.iter().all(is_taken) && self.draft.payload_bytes() + bytes <= PAYLOAD_BYTES_MAX
    }

    /// Marks `part` as pages of the normal zone, all in use, so that pages of a superpage can be freed one by one.
    fn in_pages(&mut self, part: Extent) -> Extent {
        let pages = Extent { zone: Zone::Normal, ..part };
        if part.zone == Zone::Super {
            let chunk = part.page / CHUNK_PAGES;
            self.pool.space().split(chunk);
            self.split.push(chunk);
            self.mark_all(&[pages], true);
        }
        pages
    }

    /// Commits the transaction, which is durable and applied on return. A failed persist poisons the pool.
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn commit(mut self) -> Result<()> {
        self.pool.check_poison()?;
        if self.draft.payload_bytes() == 0 {
            return Ok(());
        }
        let draft = std::mem::take(&mut self.draft);
        let committed = self.pool.lanes().commit(self.pool.memory(), draft);
        if let Err(error @ Error::Limit(_)) = committed {
            return Err(error);
        }
        self.taken.clear();
        self.split.clear();
        committed.and_then(|_| self.free_committed()).inspect_err(|error| self.pool.poison(error))
    }

    /// Frees the freed extents in the allocator. Older records that write there are retired first: a crash would replay
    /// them over the next owner's data (lane L6).
    fn free_committed(&self) -> Result<()> {
        if !self.freed.is_empty() {
            self.pool.lanes().retire(self.pool.memory())?;
            self.pool.grants().free(self.pool.space(), &self.freed);
        }
        Ok(())
    }

    /// Adds operations that mark `extents` as used or free, neighbours at once.
    fn mark_all(&mut self, extents: &[Extent], used: bool) {
        for run in extents.chunk_by(|one, next| one.end() == next.page && one.zone == next.zone) {
            let pages = run[0].page..run[run.len() - 1].end();
            match run[0].zone {
                Zone::Super => self.mark_chunks(pages, if used { ChunkUse::Super } else { ChunkUse::Free }),
                Zone::Normal => {
                    if used {
                        self.mark_chunks(pages.clone(), ChunkUse::Normal);
                    }
                    self.mark_pages(pages, used);
                }
            }
        }
    }

    /// Fills whole words; other transactions may change bits in the first and the last word.
    fn mark_pages(&mut self, pages: Range<u64>, used: bool) {
        let mut page = pages.start;
        while page < pages.end {
            let (at, first) = (bitmap_at(page / CHUNK_PAGES) + page % CHUNK_PAGES / 64 * 8, page % 64);
            let words = (pages.end - page) / 64;
            if first == 0 && words > 1 {
                let byte = if used { 0xff } else { 0 };
                self.operation(FILL, at, (words * 8) | byte << KIND_SHIFT);
                page += words * 64;
                continue;
            }
            let count = (64 - first).min(pages.end - page);
            self.operation(if used { SET } else { CLEAR }, at, (u64::MAX >> (64 - count)) << first);
            page += count;
        }
    }

    fn mark_chunks(&mut self, pages: Range<u64>, kind: ChunkUse) {
        let (mut chunk, end) = (pages.start / CHUNK_PAGES, pages.end.div_ceil(CHUNK_PAGES));
        while chunk < end {
            let run = (chunk..end).take_while(|next| kind_at(*next) == kind_at(chunk) + next - chunk).count() as u64;
            self.operation(FILL, kind_at(chunk), run | (kind as u64) << KIND_SHIFT);
            chunk += run;
        }
    }

    fn operation(&mut self, kind: u64, at: u64, detail: u64) {
        self.draft.push(&(at | kind << KIND_SHIFT).to_le_bytes());
        self.draft.push(&detail.to_le_bytes());
    }
}

/// Returns the last chunk of `extent`, or the whole extent in the normal zone.
fn last_part(extent: Extent) -> Extent {
    match extent.zone {
        Zone::Super => Extent { page: extent.end() - CHUNK_PAGES, pages: CHUNK_PAGES as u32, ..extent },
        Zone::Normal => extent,
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.split.iter().for_each(|chunk| self.pool.space().join(*chunk));
        if !self.taken.is_empty() {
            self.pool.free_unused(&self.taken);
        }
    }
}
