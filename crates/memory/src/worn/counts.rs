//! Counters by page and line, made where something is written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::WearUnit;
use super::tally::{Histogram, Tally};
use crate::Span;

const LINE: u64 = 64;
const PAGE: u64 = 4096;
const PAGE_LINES: usize = (PAGE / LINE) as usize;
/// Pages whose counters are made together.
const BLOCK_PAGES: usize = 512;
const BLOCK: u64 = BLOCK_PAGES as u64 * PAGE;

type LineCounters = OnceLock<Box<[AtomicU32; PAGE_LINES]>>;

/// The counters of 2 MiB.
struct CountBlock {
    pages: [AtomicU32; BLOCK_PAGES],
    /// One for each page; none where lines are not counted.
    lines: Box<[LineCounters]>,
}

/// A page and how often it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WornPage {
    /// Its first byte.
    pub at: u64,
    /// How often it was written.
    pub writes: u32,
}

/// All counters of a memory.
pub(super) struct WearCounts {
    blocks: Box<[OnceLock<Box<CountBlock>>]>,
    finest: WearUnit,
    size: u64,
}

impl WearCounts {
    /// Counters at zero for `size` bytes.
    pub fn new(size: u64, finest: WearUnit) -> Self {
        let blocks = (0..size.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        Self { blocks, finest, size }
    }

    /// Counts one write of each page and line that `span` touches. With `words`, a line counts once for each word
    /// touched.
    pub fn count(&self, span: Span, words: bool) {
        for page in pieces(span, PAGE) {
            let block = self.blocks[(page.at / BLOCK) as usize].get_or_init(|| self.fresh_block());
            let number = (page.at % BLOCK / PAGE) as usize;
            add(&block.pages[number], 1);
            let Some(lines) = block.lines.get(number) else { continue };
            let lines = lines.get_or_init(|| Box::new([const { AtomicU32::new(0) }; PAGE_LINES]));
            for line in pieces(page, LINE) {
                let writes = if words { pieces(line, 8).count() as u32 } else { 1 };
                add(&lines[(line.at % PAGE / LINE) as usize], writes);
            }
        }
    }

    fn fresh_block(&self) -> Box<CountBlock> {
        let pages_with_lines = if self.finest == WearUnit::Line { BLOCK_PAGES } else { 0 };
        let lines = (0..pages_with_lines).map(|_| OnceLock::new()).collect();
        Box::new(CountBlock { pages: [const { AtomicU32::new(0) }; BLOCK_PAGES], lines })
    }

    pub fn tally_pages(&self) -> Tally {
        let mut histogram = Histogram::default();
        self.pages().for_each(|page| histogram.add(page.writes));
        histogram.tally(self.size.div_ceil(PAGE))
    }

    pub fn tally_lines(&self) -> Option<Tally> {
        let mut histogram = Histogram::default();
        let lines = self.blocks.iter().filter_map(OnceLock::get).flat_map(|block| block.lines.iter());
        for line in lines.filter_map(OnceLock::get).flat_map(|page| page.iter()) {
            histogram.add(line.load(Ordering::Relaxed));
        }
        (self.finest == WearUnit::Line).then(|| histogram.tally(self.size.div_ceil(LINE)))
    }

    /// The `count` most written pages; of equal ones the first.
    pub fn top_pages(&self, count: usize) -> Vec<WornPage> {
        let mut top = BinaryHeap::new();
        for page in self.pages() {
            top.push((Reverse(page.writes), page.at));
            if top.len() > count {
                top.pop();
            }
        }
        top.into_sorted_vec().into_iter().map(|(Reverse(writes), at)| WornPage { at, writes }).collect()
    }

    /// The pages that were written.
    fn pages(&self) -> impl Iterator<Item = WornPage> {
        let blocks = self.blocks.iter().zip(0_u64..).filter_map(|(block, number)| Some((block.get()?, number * BLOCK)));
        blocks.flat_map(|(block, start)| {
            let pages = block.pages.iter().zip(0_u64..);
            let pages = pages.map(move |(page, number)| (page.load(Ordering::Relaxed), start + number * PAGE));
            pages.filter(|(writes, _)| *writes > 0).map(|(writes, at)| WornPage { at, writes })
        })
    }
}

/// Adds without passing over the largest count.
pub(super) fn add(counter: &AtomicU32, writes: u32) {
    let more = |count: u32| (count < u32::MAX).then(|| count.saturating_add(writes));
    // A full counter stays full, and that needs no store.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// `span`, cut at multiples of `unit` bytes.
fn pieces(span: Span, unit: u64) -> impl Iterator<Item = Span> {
    let end = span.at + span.len;
    let mut at = span.at;
    std::iter::from_fn(move || {
        let piece = Span::new(at, (unit - at % unit).min(end - at));
        at += piece.len;
        (piece.len > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests;
