//! A memory whose pages can be copied as of one instant while threads go on storing, and which marks the pages that
//! changed since then.
//!
//! ```text
//! page      pending --take--> copying ----------> done        the content went to the copier
//!           pending --store-> copying --> kept --take-> done  the content waits in DRAM
//! ```
//!
//! - SN1. The instant is [`SnapshotMemory::begin`]. The caller keeps every thread from storing during that call.
//! - SN2. A store to a pending page first keeps the page's content. A store waits while another thread copies the page.
//! - SN3. The snapshot does not see stores of a process that maps a [`Memory::share`]d part. The caller keeps such
//!   processes from storing, and drops a copy during which a part was shared ([`SnapshotMemory::was_shared`]).
//! - SN4. A page is marked after each store to it, and keeps its mark until a copier [takes](SnapshotMemory::take_mark) it
//!   and then reads the page. So a page without a mark is as it was when it was read last, whenever threads stored. Marks do
//!   not count from the first shared part on (SN3).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Fletcher, Memory, Result, Scheme, Shared, Span, forward_memory, planted};

/// Bytes of a page.
const PAGE: u64 = 4096;

const DONE: u8 = 0;
const PENDING: u8 = 1;
const COPYING: u8 = 2;
const KEPT: u8 = 3;

type PageBytes = [u8; PAGE as usize];

/// The number of instants of all snapshots of this process.
static INSTANTS: AtomicU64 = AtomicU64::new(0);

/// The instant at which a snapshot began, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInstant(u64);

/// A memory with snapshots. Uses two bytes of DRAM for each page, and a copy of each pending page that is stored to.
pub struct SnapshotMemory<M> {
    inner: M,
    is_on: AtomicBool,
    /// True if a part was shared since the snapshot began.
    was_shared: AtomicBool,
    /// True if a part was ever shared.
    was_ever_shared: AtomicBool,
    /// The instant of the last snapshot, or 0.
    instant: AtomicU64,
    pages: Box<[AtomicU8]>,
    /// The marks (SN4).
    is_stored: Box<[AtomicBool]>,
    kept: Mutex<HashMap<u64, Box<PageBytes>>>,
}

impl<M: Memory> SnapshotMemory<M> {
    /// Returns `inner` with snapshots.
    pub fn new(inner: M) -> Self {
        let count = inner.size().div_ceil(PAGE);
        Self {
            inner,
            is_on: AtomicBool::new(false),
            was_shared: AtomicBool::new(false),
            was_ever_shared: AtomicBool::new(false),
            instant: AtomicU64::new(0),
            pages: (0..count).map(|_| AtomicU8::new(DONE)).collect(),
            is_stored: (0..count).map(|_| AtomicBool::new(false)).collect(),
            kept: Mutex::default(),
        }
    }

    /// Begins a snapshot of `pages`, numbers of pages (SN1). Returns the instant.
    pub fn begin(&self, pages: impl Iterator<Item = u64>) -> SnapshotInstant {
        self.kept().clear();
        self.was_shared.store(false, Ordering::SeqCst);
        for page in pages {
            self.pages[page as usize].store(PENDING, Ordering::Relaxed);
        }
        let instant = INSTANTS.fetch_add(1, Ordering::Relaxed) + 1;
        self.instant.store(instant, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        SnapshotInstant(instant)
    }

    /// Returns true if marks tell which pages changed since `instant` (SN4). The last snapshot then began at `instant`,
    /// and no part was ever shared.
    pub fn has_marks_since(&self, instant: SnapshotInstant) -> bool {
        self.instant.load(Ordering::Relaxed) == instant.0 && !self.was_ever_shared.load(Ordering::SeqCst)
    }

    /// Takes the mark of `page`, whose content the caller reads afterwards. Returns true if there was one.
    pub fn take_mark(&self, page: u64) -> bool {
        self.is_stored[page as usize].swap(false, Ordering::AcqRel)
    }

    /// Takes all marks. The caller reads all pages afterwards.
    pub fn take_marks(&self) {
        self.is_stored.iter().for_each(|mark| mark.store(false, Ordering::Release));
    }

    /// Copies out what `page` held when the snapshot began. Each page of the snapshot is taken once.
    pub fn take(&self, page: u64, into: &mut PageBytes) {
        let state = &self.pages[page as usize];
        while let Err(found) = state.compare_exchange(PENDING, COPYING, Ordering::Acquire, Ordering::Acquire) {
            if found == COPYING {
                std::hint::spin_loop();
                continue;
            }
            if let Some(kept) = self.kept().remove(&page) {
                *into = *kept;
            }
            state.store(DONE, Ordering::Release);
            return;
        }
        self.inner.load(page * PAGE, into);
        state.store(DONE, Ordering::Release);
    }

    /// Returns true if a process may have stored past this memory since the snapshot began (SN3).
    pub fn was_shared(&self) -> bool {
        self.was_shared.load(Ordering::SeqCst)
    }

    /// Ends the snapshot. Pages that were not taken are no longer kept.
    pub fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        self.pages.iter().for_each(|page| page.store(DONE, Ordering::Release));
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<u64, Box<PageBytes>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps those pages of `span` that are pending (SN2).
    #[inline]
    fn before_store(&self, span: Span) {
        if span.len > 0 && self.is_on.load(Ordering::Acquire) {
            self.keep(span);
        }
    }

    /// Marks the pages of `span` (SN4).
    #[inline]
    fn after_store(&self, span: Span) {
        if span.len == 0 {
            return;
        }
        for mark in &self.is_stored[(span.at / PAGE) as usize..=((span.at + span.len - 1) / PAGE) as usize] {
            // Threads that store to one page share the line of its mark, so only the first of them writes to it.
            if !mark.load(Ordering::Relaxed) && !planted!("snapshot: a store marks nothing") {
                mark.store(true, Ordering::Release);
            }
        }
    }

    /// Does `store`, which changes bytes of `span`.
    #[inline]
    fn stored<T>(&self, span: Span, store: impl FnOnce(&M) -> T) -> T {
        self.before_store(span);
        planted!("snapshot: a page is marked before its store" => self.after_store(span));
        let done = store(&self.inner);
        if !planted!("snapshot: a page is marked before its store") {
            self.after_store(span);
        }
        done
    }

    #[cold]
    fn keep(&self, span: Span) {
        planted!("snapshot: a store keeps nothing" => return);
        for page in span.at / PAGE..=(span.at + span.len - 1) / PAGE {
            let state = &self.pages[page as usize];
            loop {
                match state.compare_exchange(PENDING, COPYING, Ordering::Acquire, Ordering::Acquire) {
                    Ok(_) => {
                        let mut bytes = Box::new([0; PAGE as usize]);
                        self.inner.load(page * PAGE, &mut *bytes);
                        self.kept().insert(page, bytes);
                        state.store(KEPT, Ordering::Release);
                        break;
                    }
                    Err(COPYING) => std::hint::spin_loop(),
                    Err(_) => break,
                }
            }
        }
    }
}

impl<M: Memory> Memory for SnapshotMemory<M> {
    forward_memory!(
        self => self.inner;
        size, survival, fence_is_durable, load, load_summed, load_hole, expect_store, load_word, load_words, flush, fence,
        barrier, inherit, reserve, lend, persist, drain, drain_range
    );

    fn share(&self, span: Span) -> Result<Shared> {
        self.was_shared.store(true, Ordering::SeqCst);
        self.was_ever_shared.store(true, Ordering::SeqCst);
        self.inner.share(span)
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.stored(Span::new(at, from.len() as u64), |inner| inner.store(at, from, how));
    }

    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        self.stored(Span::new(at, from.len() as u64), |inner| inner.store_summed(at, from))
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.stored(span, |inner| inner.zero(span, how));
    }

    fn store_word(&self, at: u64, value: u64) {
        self.stored(Span::new(at, 8), |inner| inner.store_word(at, value));
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        let spans = || pieces.iter().map(|(at, from)| Span::new(*at, from.len() as u64));
        spans().for_each(|span| self.before_store(span));
        self.inner.store_words(pieces);
        spans().for_each(|span| self.after_store(span));
    }

    fn release(&self, span: Span) -> Result<()> {
        self.stored(span, |inner| inner.release(span))
    }
}

#[cfg(test)]
mod tests;
