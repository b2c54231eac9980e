//! Flushing all of a mapping: for the scheme `writeback-all`, and after a process that was killed.
#![allow(unsafe_code, reason = "mincore")]

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Backing, Mapped};
use crate::{Error, Memory, Result, Span};

/// Pages asked about at once.
const PAGES: usize = 4096;
const PAGE: u64 = 4096;

/// Whether barriers flush the whole mapping. Never unset, as the driver of the paper cannot know what is in the
/// cache either; so no store can fall between a barrier's flush and the unsetting, and be lost.
#[derive(Default)]
pub(super) struct FlushesAll(AtomicBool);

impl FlushesAll {
    #[inline]
    pub fn use_for_good(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[inline]
    pub fn is_used(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Mapped {
    /// Flushes every line of every page that the host holds. A page it does not hold has no line in the cache, and
    /// touching it would make the host find memory for it.
    pub(super) fn flush_resident(&self) {
        let mut held = [0; PAGES];
        for first in (0..self.size()).step_by(PAGES * PAGE as usize) {
            let span = Span::new(first, (self.size() - first).min(PAGES as u64 * PAGE));
            let held = &mut held[..(span.len / PAGE) as usize];
            self.find_held(span, held);
            runs(first, held).for_each(|run| self.flush(run));
        }
    }

    /// Flushes what any process may have left in the processor's caches. The kernel knows which pages of a file were
    /// stored to since it was last synced; of a device it knows nothing, so every line of it is flushed.
    pub(super) fn flush_inherited(&self) -> Result<()> {
        let file = self.area.file();
        let about = file.metadata().map_err(|why| Error::io(format!("asking about {}", self.name), why))?;
        if about.is_file() {
            return self.host_sync.sync(file);
        }
        self.flush_resident();
        Ok(())
    }

    /// Sets the first bit of `held` for each page of `span` that the host holds, or for all pages if it does not report
    /// them. All of persistent memory counts as held: the kernel knows its pages only while they are mapped, which
    /// under the guard `private` they are not.
    fn find_held(&self, span: Span, held: &mut [u8]) {
        let at = self.area.base().wrapping_add(span.at as usize);
        // SAFETY: the pages are the mapping's own, and `held` has a byte for each.
        let is_told = self.backing != Backing::Dax
            && unsafe { libc::mincore(at.cast(), span.len as usize, held.as_mut_ptr()) } == 0;
        if !is_told {
            held.fill(1);
        }
    }
}

/// The runs of held pages, of which the first is at byte `first`.
fn runs(first: u64, held: &[u8]) -> impl Iterator<Item = Span> {
    let mut end = first;
    held.chunk_by(|a, b| a & 1 == b & 1).filter_map(move |run| {
        let span = Span::new(end, run.len() as u64 * PAGE);
        end += span.len;
        (run[0] & 1 != 0).then_some(span)
    })
}

#[cfg(test)]
mod tests;
