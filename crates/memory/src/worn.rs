//! How often each part of a memory is written: what a medium of limited endurance would suffer.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shard::{Padded, SHARDS, own_shard};
use crate::{Memory, Result, Scheme, Shared, Span, forward_memory};

mod counts;
mod tally;
#[cfg(test)]
mod tests;

pub use counts::WornPage;
pub use tally::Tally;

use counts::WearCounts;

/// Counts the writes to the memory under it, per page of 4 KiB and, where asked, per line of 64 bytes.
///
/// Counted is what is asked for: each call that stores into a page or line is one write of it, and under
/// [`Scheme::Writethrough`] each 8-byte word is one of its line. A cache may merge several before the medium sees them,
/// so this is the most it can be worn, not the least. A process that maps a [`Memory::share`]d part writes uncounted:
/// the report says how much was shared.
///
/// Counters saturate at `u32::MAX` and are made where something is first written. They take at most a thousandth of the
/// memory's size for pages, a fourteenth with lines, and are gone with the process. Put this around [`crate::Paced`],
/// not into it, lest counting be timed as copying.
pub struct Worn<M> {
    inner: M,
    counts: WearCounts,
    written_bytes: [Padded<AtomicU64>; SHARDS],
    shared_bytes: AtomicU64,
}

/// The finest unit that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WearUnit {
    /// 4 KiB.
    #[default]
    Page,
    /// 64 bytes, and pages too.
    Line,
}

/// The writes so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Wear {
    /// Of the pages.
    pub pages: Tally,
    /// Of the lines, where they are counted.
    pub lines: Option<Tally>,
    /// The most written pages, the most written first.
    pub top_pages: Vec<WornPage>,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes of the parts that were shared with others, whose writes are not counted; a part that was shared twice
    /// counts twice.
    pub shared_bytes: u64,
}

impl<M: Memory> Worn<M> {
    /// `inner`, counted from now on.
    pub fn new(inner: M, finest: WearUnit) -> Self {
        let counts = WearCounts::new(inner.size(), finest);
        Self { inner, counts, written_bytes: Default::default(), shared_bytes: AtomicU64::new(0) }
    }

    /// The memory under it.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The counts, with the `top` most written pages; while writes run, each is right and their sums may lag.
    pub fn wear(&self, top: usize) -> Wear {
        Wear {
            pages: self.counts.tally_pages(),
            lines: self.counts.tally_lines(),
            top_pages: self.counts.top_pages(top),
            written_bytes: self.written_bytes.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum(),
            shared_bytes: self.shared_bytes.load(Ordering::Relaxed),
        }
    }

    fn count(&self, span: Span, how: Scheme) {
        self.counts.count(span, how == Scheme::Writethrough);
        self.written_bytes[own_shard()].0.fetch_add(span.len, Ordering::Relaxed);
    }
}

impl<M: Memory> Memory for Worn<M> {
    forward_memory!(
        self => self.inner;
        size, survival, fence_is_durable, load, load_hole, load_word, flush, fence, barrier, inherit, reserve, release,
        lend
    );

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.inner.store(at, from, how);
        self.count(Span::new(at, from.len() as u64), how);
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.inner.zero(span, how);
        self.count(span, how);
    }

    fn store_word(&self, at: u64, value: u64) {
        self.inner.store_word(at, value);
        self.count(Span::new(at, 8), Scheme::Flush);
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        self.inner.store_words(pieces);
        pieces.iter().for_each(|(at, from)| self.count(Span::new(*at, from.len() as u64), Scheme::Flush));
    }

    fn share(&self, span: Span) -> Result<Shared> {
        let shared = self.inner.share(span)?;
        self.shared_bytes.fetch_add(span.len, Ordering::Relaxed);
        Ok(shared)
    }
}
