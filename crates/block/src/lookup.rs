//! Finding the bytes of a disk in the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_memory::{Borrower, Lent, Span, pin};
use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::disk::BlockDisk;
use crate::map::{GROUP_BYTES, MapEntry};
use crate::shape::BLOCK;

/// At most one in this many spare blocks is lent.
const LENT_PART_OF_SPARES: u64 = 3;

impl BlockDisk {
    /// Returns the offset in the pool of block `block` of the data stream.
    #[inline]
    pub(crate) fn place(&self, block: u64) -> u64 {
        self.chunks.row(block / CHUNK_PAGES).load(Ordering::Relaxed) + block % CHUNK_PAGES * PAGE
    }

    /// Returns the entry of the first block of `span`, which is not empty, and the number of bytes that continue it in
    /// one run in the pool (or as zeros).
    pub(crate) fn run(&self, span: Span) -> (MapEntry, u64) {
        let (index, within) = (span.at / BLOCK, span.at % BLOCK);
        let entry = self.map.get(index);
        let mut len = BLOCK - within;
        while len < span.len {
            let step = (within + len) / BLOCK;
            let next = self.map.get(index + step);
            let follows = match entry.block() {
                None => next == MapEntry::ZERO,
                Some(block) => next.block() == Some(block + step) && !(block + step).is_multiple_of(CHUNK_PAGES),
            };
            if !follows {
                break;
            }
            len += BLOCK;
        }
        (entry, len.min(span.len))
    }

    /// Returns the offset in the pool of the first run of `span`, which is not empty (`None` for zeros), and its
    /// length. The next run may continue it.
    #[inline]
    pub(crate) fn piece(&self, span: Span) -> (Option<u64>, u64) {
        match self.map.group_place(span.at / GROUP_BYTES) {
            Some(place) => {
                let within = span.at % GROUP_BYTES;
                (Some(place + within), span.len.min(GROUP_BYTES - within))
            }
            None => self.piece_by_words(span),
        }
    }

    #[inline(never)]
    fn piece_by_words(&self, span: Span) -> (Option<u64>, u64) {
        let (entry, len) = self.run(span);
        (entry.block().map(|block| self.place(block) + span.at % BLOCK), len)
    }

    /// Returns the offset of `span` in the pool if it is not empty and known to lie in one run.
    #[inline]
    pub(crate) fn place_of(&self, span: Span) -> Option<u64> {
        if span.len == 0 {
            return None;
        }
        self.map.usual(span).map(|usual| usual.place).or_else(|| match self.piece(span) {
            (place, len) if len == span.len => place,
            _ => None,
        })
    }

    /// Lends the first run of `span`, which lies within the disk (FB3). Lends nothing if the disk is served in place,
    /// because lent bytes must not change, or if a read does more than copy.
    pub(crate) fn lend_run(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let blocks_max = span.len.div_ceil(BLOCK) + 1;
        let is_plain = !self.options.in_place && !self.has_slow_reads && span.len > 0;
        if !is_plain || !self.free.loans.have_room(blocks_max, self.spares() / LENT_PART_OF_SPARES) {
            return None;
        }
        let _pin = pin();
        let (entry, len) = self.run(span);
        let (first, within) = (entry.block()?, span.at % BLOCK);
        let lent = self.memory.lend(Span::new(self.place(first) + within, len)).filter(|_| len >= least_bytes)?;
        let end = first + (within + len).div_ceil(BLOCK);
        self.free.loans.add(first as u32..end as u32, borrower);
        Some(lent)
    }

    /// Reads run by run.
    #[inline(never)]
    pub(crate) fn read_runs(&self, at: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let (place, len) = self.piece(Span::new(at + done as u64, (into.len() - done) as u64));
            let part = &mut into[done..done + len as usize];
            match place {
                Some(place) => self.memory.load(place, part),
                None => self.memory.load_hole(part),
            }
            done += len as usize;
        }
    }
}
