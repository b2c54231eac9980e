//! Demotion: truths go to the disk in batches and stay as copies.
//!
//! ```text
//!   choose -- stage -- read bytes -- write to the disk -- flush the disk -- lines, fence -- words say copy, fence
//!                        a store to a page in between keeps its word
//! ```

use ferrite_disk::Access;
use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use crate::frame_table::FramedPage;
use crate::frame_word::FrameContent;
use crate::guest_engine::{EngineState, GuestEngine};
use crate::{RUN_PAGES, Result};

/// Pages of a batch at most: 4 MiB.
pub(crate) const BATCH_PAGES: usize = 1024;

/// The way in which truths leave. Experiments compare others with the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemotionPolicy {
    /// Pages of a batch at most, and at least one run.
    pub batch_pages: usize,
    /// Frames keep displaced pages as copies until other pages need the frames.
    pub keeps_copies: bool,
}

impl Default for DemotionPolicy {
    fn default() -> Self {
        Self { batch_pages: BATCH_PAGES, keeps_copies: true }
    }
}

/// The state in which a step leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestStep {
    /// Pages were written to the disk; more work may wait.
    Worked,
    /// Enough frames are free or hold copies.
    Rests,
}

/// Returns how many truths should leave: none before fewer than 1/32 of the frames are free or hold copies, then as many as
/// are lacking to 1/16.
fn wanted(state: &EngineState) -> usize {
    let (all, clean) = (state.frames.usable(), state.frames.free() + state.frames.copies());
    let (low, high) = ((all / 32).max(1), (all / 16).max(2));
    if clean < low { high - clean } else { 0 }
}

impl GuestEngine {
    /// Changes the way in which truths leave from the next batch on.
    pub fn set_demotion(&self, policy: DemotionPolicy) {
        self.lock_reader().demotion = policy;
    }

    /// Demotes a batch if few frames are free or hold copies.
    ///
    /// # Errors
    /// The errors of the pool and the disk. If the disk failed nothing is lost: the truths stay where they are.
    pub fn step(&self) -> Result<GuestStep> {
        self.demote_some(wanted)
    }

    /// Demotes a batch of `count` truths at least, as far as there are some.
    ///
    /// # Errors
    /// As [`GuestEngine::step`].
    pub fn evict(&self, count: usize) -> Result<GuestStep> {
        self.demote_some(|state| wanted(state).max(count))
    }

    /// Demotes a batch of about as many truths as `count` says.
    fn demote_some(&self, count: impl FnOnce(&EngineState) -> usize) -> Result<GuestStep> {
        let _one = self.batch.lock();
        let chosen = {
            let mut state = self.lock_tied()?;
            let count = count(&state).min(state.demotion.batch_pages);
            state.frames.choose(count)
        };
        if chosen.is_empty() {
            return Ok(GuestStep::Rests);
        }
        self.demote(&chosen)?;
        Ok(GuestStep::Worked)
    }

    /// Does a step for a write that needs `needed` frames and finds fewer.
    pub(crate) fn make_room(&self, needed: usize) -> Result<()> {
        self.lock().counts.waits += 1;
        let lacking = |state: &EngineState| needed.saturating_sub(state.frames.free() + state.frames.copies());
        self.demote_some(|state| wanted(state).max(lacking(state))).map(drop)
    }

    /// Demotes every page that is a truth now. `watch` gets the pages done and all, and stops it by returning false.
    /// Returns false if it was stopped.
    ///
    /// # Errors
    /// As [`GuestEngine::step`].
    pub fn demote_all(&self, watch: &mut dyn FnMut(u64, u64) -> bool) -> Result<bool> {
        let all = self.lock().frames.all_truths();
        for (number, pages) in all.chunks(BATCH_PAGES).enumerate() {
            if !watch((number * BATCH_PAGES) as u64, all.len() as u64) {
                return Ok(false);
            }
            let _one = self.batch.lock();
            let chosen = self.lock_tied()?.frames.leave(pages);
            self.demote(&chosen)?;
        }
        Ok(true)
    }

    /// Writes the truths of `chosen`, which are sorted, to the disk, and makes those copies that no store reached in
    /// between.
    pub(crate) fn demote(&self, chosen: &[FramedPage]) -> Result<()> {
        if !self.space.sees_copies() {
            // The pool may have been copied at any time.
            self.lock().is_copied = true;
            if let Err(error) = self.advance_tie() {
                self.keep(chosen);
                return Err(error);
            }
        }
        let runs = || chosen.chunk_by(|one, next| one.page + 1 == next.page);
        if !planted!("guest: bytes are read before the page is staged") {
            runs().for_each(|run| self.plane.stage(run[0].page, run.len() as u64));
        }
        let mut bytes = vec![0; chosen.len() * PAGE as usize];
        {
            let state = self.lock();
            for (one, page) in chosen.iter().zip(bytes.chunks_mut(PAGE as usize)) {
                if state.frames.is_leaving(*one) {
                    self.space.load(one.frame, 0, page);
                }
            }
        }
        let written = self.write_pages(chosen, &bytes);
        if planted!("guest: bytes are read before the page is staged") {
            runs().for_each(|run| self.plane.stage(run[0].page, run.len() as u64));
        }
        if let Err(error) = written {
            self.keep(chosen);
            return Err(error);
        }
        let mut state = self.lock();
        let gone: Vec<FramedPage> = chosen.iter().filter(|one| state.frames.is_leaving(**one)).copied().collect();
        if !planted!("guest: a page is a copy before its lines are durable") {
            gone.iter().for_each(|one| self.space.flush_frame(one.frame));
            self.space.drain()?;
        }
        let keeps_copies = state.demotion.keeps_copies;
        let content = |one: &FramedPage| if keeps_copies { FrameContent::Copy(one.page) } else { FrameContent::Free };
        let words: Vec<_> = gone.iter().map(|one| (one.frame, content(one))).collect();
        if keeps_copies || !planted!("guest: a frame is free under the word of its page") {
            self.space.persist_words(&words)?;
        }
        for (frame, content) in words {
            match content {
                FrameContent::Free => state.drop_copy(frame),
                content => state.frames.set(frame, content),
            }
        }
        state.counts.demoted_pages += gone.len() as u64;
        self.free_retired(&mut state)
    }

    /// Keeps the pages of `chosen` where they are.
    fn keep(&self, chosen: &[FramedPage]) {
        let mut state = self.lock();
        chosen.iter().for_each(|one| state.frames.stay(*one));
    }

    /// Writes the pages of `chosen` that still leave to the disk, and flushes the disk (VR4).
    fn write_pages(&self, chosen: &[FramedPage], bytes: &[u8]) -> Result<()> {
        let leaving: Vec<bool> = {
            let state = self.lock();
            chosen.iter().map(|one| state.frames.is_leaving(*one)).collect()
        };
        let early_flush = planted!("guest: the disk is flushed before it is written");
        if early_flush {
            self.disk.flush()?;
        }
        let mut written = 0;
        let mut first = 0;
        while first < chosen.len() {
            let joins = |next: &usize| {
                let behind = chosen[first].page + (*next - first) as u64;
                leaving[*next] && chosen[*next].page == behind && *next - first < RUN_PAGES as usize
            };
            let end = (first..chosen.len()).take_while(joins).last().map_or(first, |last| last + 1);
            if end > first {
                let run = &bytes[first * PAGE as usize..end * PAGE as usize];
                self.disk.write(chosen[first].page * PAGE, run, Access::Cached)?;
                written += run.len() as u64;
            }
            first = end.max(first + 1);
        }
        if !early_flush {
            self.disk.flush()?;
        }
        let mut state = self.lock();
        state.counts.disk_written_bytes += written;
        state.counts.disk_flushes += 1;
        Ok(())
    }
}
