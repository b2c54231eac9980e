//! Blocks that missed lately: a block enters the cache at its second miss.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::page_word::BlockKey;

/// A table of fingerprints, one for each page of the cache. A later block takes the place of an earlier one.
pub(crate) struct GhostTable {
    prints: Box<[AtomicU32]>,
}

impl GhostTable {
    /// Returns a table for a cache of `pages` pages.
    pub fn new(pages: u64) -> Self {
        Self { prints: (0..pages.max(1)).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes `key`. Returns true if the table had it.
    pub fn note(&self, key: BlockKey) -> bool {
        let hash = key.hash();
        let print = (hash >> 32) as u32 | 1;
        let place = &self.prints[(hash & 0xffff_ffff) as usize % self.prints.len()];
        place.swap(print, Ordering::Relaxed) == print
    }
}

#[cfg(test)]
mod tests;
