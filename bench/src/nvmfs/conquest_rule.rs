//! Conquest's rule (nvm-storage-hierarchy.txt 3.3.1): small files and all metadata stay in memory for good; larger files are
//! on the SSD behind a page cache, which is the rest of memory. They are as durable as they are synced.
//!
//! The model is exact for content, except that it writes no dirty page of a larger file back before memory is full or the
//! file is synced. So Conquest writes at least as much.

use std::collections::HashMap;

use super::load_trace::{LoadTrace, TraceStep, TraceVerb};
use super::page_reference::{ExactLru, ReferenceCounts};
use crate::records::PAGE_BYTES;

/// The paper's limit of small files, and smaller ones for loads whose small files do not fit in memory: with none, the limit
/// is 0. The paper took the largest one that fits.
const SMALL_BELOW: [u64; 7] = [128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 0];
/// The part of memory that small files may take.
const SMALL_PART: usize = 2;

/// The counts of Conquest's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConquestCounts {
    /// Bytes from which a file is not small.
    pub small_below: u64,
    /// Pages written to the SSD by the measured requests, until all larger files are there.
    pub written_pages: u64,
    /// Random reads behind them that found their page in memory.
    pub probe_hits: u64,
}

/// A memory of which small files take a part.
struct ConquestMemory {
    memory_pages: usize,
    small_below: u64,
    sizes: HashMap<u64, u64>,
    /// Pages of small files now, and at most so far.
    small_pages: usize,
    small_pages_max: usize,
    cache: ExactLru,
    small_hits: u64,
}

impl ConquestMemory {
    fn new(memory_pages: usize, small_below: u64) -> Self {
        let (sizes, cache) = (HashMap::new(), ExactLru::new(memory_pages));
        Self { memory_pages, small_below, sizes, small_pages: 0, small_pages_max: 0, cache, small_hits: 0 }
    }

    fn carry_out(&mut self, step: &TraceStep) {
        let before = self.sizes.get(&step.file).copied().unwrap_or(0);
        let was_small = before < self.small_below;
        let pages = |bytes: u64| bytes.div_ceil(PAGE_BYTES) as usize;
        match step.verb {
            TraceVerb::Read if was_small => self.small_hits += step.pages().count() as u64,
            TraceVerb::Read => step.pages().for_each(|page| self.cache.request(page, true)),
            TraceVerb::Write => {
                let after = before.max(step.at + step.len);
                self.sizes.insert(step.file, after);
                if after < self.small_below {
                    self.resize_small(pages(before), pages(after));
                    return;
                }
                if was_small {
                    // A file that is too large now leaves with all it has.
                    self.resize_small(pages(before), 0);
                    let moved = TraceStep { at: 0, len: before, ..*step };
                    moved.pages().for_each(|page| self.cache.request(page, false));
                }
                step.pages().for_each(|page| self.cache.request(page, false));
            }
            TraceVerb::Sync if was_small => {}
            TraceVerb::Sync => self.cache.clean(step.pages()),
            TraceVerb::Remove => {
                self.sizes.remove(&step.file);
                if was_small {
                    self.resize_small(pages(before), 0);
                }
                self.cache.forget(step.pages());
            }
        }
    }

    fn resize_small(&mut self, before: usize, after: usize) {
        self.small_pages = self.small_pages + after - before;
        self.small_pages_max = self.small_pages_max.max(self.small_pages);
        self.cache.set_capacity(self.memory_pages.saturating_sub(self.small_pages));
    }

    fn fits(&self) -> bool {
        self.small_pages_max <= self.memory_pages / SMALL_PART
    }

    /// Writes all larger files to the SSD, and returns the counts since the last call.
    fn drain(&mut self) -> ReferenceCounts {
        let counts = self.cache.drain();
        ReferenceCounts { hits: counts.hits + std::mem::take(&mut self.small_hits), ..counts }
    }
}

/// Returns what Conquest does with `trace` in `memory_pages`, with the largest limit of small files that fits.
pub fn counts(trace: &LoadTrace, memory_pages: usize) -> ConquestCounts {
    let counts = |small_below| {
        let mut memory = ConquestMemory::new(memory_pages, small_below);
        trace.fill.iter().for_each(|step| memory.carry_out(step));
        memory.drain();
        trace.run.iter().for_each(|step| memory.carry_out(step));
        let written_pages = memory.drain().written_pages;
        trace.probes.iter().for_each(|step| memory.carry_out(step));
        let probe_hits = memory.drain().hits;
        memory.fits().then_some(ConquestCounts { small_below, written_pages, probe_hits })
    };
    SMALL_BELOW.into_iter().find_map(counts).expect("no files take no memory")
}

#[cfg(test)]
mod tests;
