//! The images that a crash may leave now: the durable bytes, and the stores that may have landed on them.
//!
//! ```text
//! image   | durable bytes of every line                                       (as if nothing pending landed)
//! line 7  | #12 cached  --######--  flushed up to #12 by thread 1
//!         | #15 cached  ######----                                            in any prefix of the cached ones
//!         | #16 nt      ------##--                                            any subset of the words of nt ones
//! ```
//!
//! These rules make M1-M4 of `ferrite_memory::Memory` definite. If M1-M4 leave room, they choose the side that allows
//! more images:
//!
//! - CP1. A store call is cut by lines; its part in a line is one *store*. The words of one cached store may land in
//!   any order, since no copy routine promises one. Of a line's cached stores a crash keeps any prefix, and of the next
//!   store any subset of its words.
//! - CP2. Each word of a non-temporal store lands by itself. Of several stores to the same word, any prefix lands.
//! - CP3. If cached and non-temporal stores meet in a line, they land independently of each other. A byte has the value
//!   of the newest store to it that landed.
//! - CP4. An unaligned head or tail of a non-temporal store is a non-temporal store of its bytes of that word.
//! - CP5. A fence makes durable the thread's own non-temporal stores. In every line that the thread flushed it makes
//!   durable the cached stores before that flush, of all threads. A durable store covers all earlier stores to its
//!   bytes.
//! - CP6. A barrier is a fence of its own thread, and makes durable the lines that any thread stored by `Writeback` or
//!   `WritebackAll`. It covers neither unfenced stores of other threads nor words that were never flushed, though a
//!   real barrier of `WritebackAll` flushes these too.
//! - CP7. If the fence is not durable, every store acts as a non-temporal one, and only a barrier makes stores durable:
//!   all of them, or those in the lines of its span.
//! - CP8. Released pages read as zeros or as before; words of a dropped page land as zeros by CP2 until a barrier.
//! - CP9. A barrier that fails makes nothing durable.
//! - CP10. A `Writethrough` store acts as a flushed one: its words may land in any order, and all wait for a fence.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_memory::Span;

use crate::event::{Action, StoreWay};
use crate::line::{LineStore, PendingLine};
use crate::pages::{CowPages, LINE_BYTES, PAGE_BYTES, lines, pieces};
use crate::possible_disk::PossibleDisk;
use crate::seed::{Seed, mix};
use crate::thread::Thread;

/// The guarantee of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// True if a fence makes stores durable (mapped persistent memory), false if only a barrier does (a file).
    pub fence_is_durable: bool,
}

impl Model {
    /// Mapped persistent memory.
    pub const MAPPED: Self = Self { fence_is_durable: true };
    /// A file.
    pub const FILE: Self = Self { fence_is_durable: false };
    /// Both models, for protocols that must hold on either.
    pub const ALL: [Self; 2] = [Self::MAPPED, Self::FILE];
}

/// The images that a crash may leave, by the rules of this module.
#[derive(Clone)]
pub(crate) struct Possible {
    pub model: Model,
    pub image: CowPages,
    pub lines: BTreeMap<u64, PendingLine>,
    pub marks: Vec<u64>,
    /// The disks that share the instant.
    pub disks: Vec<PossibleDisk>,
    /// For each thread, the lines in which its next fence makes stores durable.
    awaited: BTreeMap<Thread, BTreeSet<u64>>,
    /// Lines that the next barrier flushes.
    tracked: BTreeSet<u64>,
    count: u64,
}

impl Possible {
    /// Starts from `image`, all of it durable.
    pub fn new(model: Model, image: CowPages) -> Self {
        let (lines, marks, disks, awaited, tracked) = Default::default();
        Self { model, image, lines, marks, disks, awaited, tracked, count: 0 }
    }

    /// Applies one event; `bytes` are the bytes of a store, or of a write to a disk. Returns true if more images or marks are possible
    /// afterwards.
    pub fn apply(&mut self, thread: Thread, action: Action, bytes: &[u8]) -> bool {
        self.count += 1;
        match action {
            Action::Store(span, way) => return self.store(thread, span, way, bytes),
            Action::Zero(span, way) => return self.zero(thread, span, way),
            Action::Flush(span) => self.flush(thread, span),
            Action::Fence => self.fence(thread),
            Action::Barrier { failed: false, span } => self.barrier(thread, span),
            Action::Barrier { failed: true, .. } | Action::Reserve(_) => {}
            Action::Release { span, salt } => {
                let dropped = dropped_pages(span, salt).map(|page| self.zero(Thread::HOST, page, StoreWay::Nt));
                return dropped.fold(false, |wider, page_wider| wider | page_wider);
            }
            Action::Mark(mark) => {
                self.marks.push(mark);
                return true;
            }
            Action::Disk(disk, event) => return self.disks[disk].apply(event, bytes),
        }
        false
    }

    fn store(&mut self, thread: Thread, span: Span, way: StoreWay, bytes: &[u8]) -> bool {
        let (mut wider, mut done) = (false, 0);
        for (at, within) in lines(span) {
            let mut store = LineStore { number: self.count, thread, way, bytes: [0; LINE_BYTES], mask: mask(&within) };
            let len = within.len();
            store.bytes[within].copy_from_slice(&bytes[done..done + len]);
            done += len;
            wider |= self.add(at, store);
        }
        wider
    }

    fn zero(&mut self, thread: Thread, span: Span, way: StoreWay) -> bool {
        let mut wider = false;
        for (page, within) in pieces(span) {
            let base = (page * PAGE_BYTES) as u64;
            let part = Span::new(base + within.start as u64, within.len() as u64);
            let clean = self.lines.range(base..base + PAGE_BYTES as u64).next().is_none();
            if clean && self.image.is_zero_page(page) {
                continue;
            }
            for (at, within) in lines(part) {
                let store = LineStore { number: self.count, thread, way, bytes: [0; LINE_BYTES], mask: mask(&within) };
                wider |= self.add(at, store);
            }
        }
        wider
    }

    /// Adds a store. A store of bytes that are durable already changes no image if its line has no pending store, and
    /// is dropped.
    fn add(&mut self, at: u64, mut store: LineStore) -> bool {
        if !self.lines.contains_key(&at) && store.is_in(self.image.line(at)) {
            return false;
        }
        if !self.model.fence_is_durable {
            store.way = StoreWay::Nt;
        }
        let (way, thread, number) = (store.way, store.thread, store.number);
        let line = self.lines.entry(at).or_default();
        line.stores.push(store);
        match way {
            StoreWay::Nt => {
                self.awaited.entry(thread).or_default().insert(at);
            }
            StoreWay::Flushed => {
                line.flushed.push((thread, number));
                self.awaited.entry(thread).or_default().insert(at);
            }
            StoreWay::Tracked => {
                self.tracked.insert(at);
            }
            StoreWay::Cached => {}
        }
        true
    }

    fn flush(&mut self, thread: Thread, span: Span) {
        let end = span.at + span.len;
        for (&at, line) in self.lines.range_mut(span.at / 64 * 64..end) {
            line.flushed.push((thread, self.count));
            self.awaited.entry(thread).or_default().insert(at);
        }
    }

    fn fence(&mut self, thread: Thread) {
        if !self.model.fence_is_durable {
            return;
        }
        for at in self.awaited.remove(&thread).unwrap_or_default() {
            let Some(line) = self.lines.get_mut(&at) else { continue };
            line.fence(thread, self.image.line_mut(at));
            if line.stores.is_empty() {
                self.lines.remove(&at);
            }
        }
    }

    fn barrier(&mut self, thread: Thread, span: Option<Span>) {
        if self.model.fence_is_durable {
            self.flush_tracked(thread);
            self.fence(thread);
            self.fence(Thread::HOST);
            return;
        }
        let reached = span.map_or(0..u64::MAX, |span| span.at / 64 * 64..span.at + span.len);
        for (&at, line) in self.lines.range_mut(reached) {
            line.make_durable(self.image.line_mut(at), |_| true);
        }
        self.lines.retain(|_, line| !line.stores.is_empty());
    }

    /// Returns the memory's part, without marks.
    pub fn of_memory(&self) -> Self {
        Self { marks: Vec::new(), disks: Vec::new(), ..self.clone() }
    }

    /// Returns the bytes of the memory as a reader sees them.
    pub fn visible(&self) -> CowPages {
        let mut visible = self.image.clone();
        for (&at, line) in &self.lines {
            *visible.line_mut(at) = line.content(self.image.line(at), &vec![0xff; line.stores.len()]);
        }
        visible
    }

    /// Applies the death of the process that used the memory and the disks, by CW3. Requests in flight end by `seed`.
    pub fn kill(&mut self, seed: &mut Seed) {
        for (&at, line) in &mut self.lines {
            line.flushed.clear();
            if self.model.fence_is_durable {
                line.make_durable(self.image.line_mut(at), |store| store.way == StoreWay::Nt);
            }
        }
        self.lines.retain(|_, line| !line.stores.is_empty());
        self.awaited.clear();
        self.tracked.clear();
        self.disks.iter_mut().for_each(|disk| disk.kill(seed));
    }

    fn flush_tracked(&mut self, thread: Thread) {
        for at in std::mem::take(&mut self.tracked) {
            if let Some(line) = self.lines.get_mut(&at) {
                line.flush_tracked(thread);
                self.awaited.entry(thread).or_default().insert(at);
            }
        }
    }
}

/// Returns the bytes of `within` as bits.
fn mask(within: &std::ops::Range<usize>) -> u64 {
    (u64::MAX >> (LINE_BYTES - within.len())) << within.start
}

/// Returns the whole pages of `span` that a host with `salt` drops: about half of them.
pub(crate) fn dropped_pages(span: Span, salt: u64) -> impl Iterator<Item = Span> {
    pieces(span)
        .filter(move |(page, within)| within.len() == PAGE_BYTES && mix(*page as u64 ^ salt << 32) & 1 == 0)
        .map(|(page, _)| Span::new((page * PAGE_BYTES) as u64, PAGE_BYTES as u64))
}
