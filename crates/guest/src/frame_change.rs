//! Frames join and leave a guest while it is in use.
//!
//! ```text
//!   more frames    transaction: the tag has the space, words of zeros -- frames are free
//!   fewer frames   frames are retired -- their truths are demoted -- words of their copies: 0, fence
//!                  -- transaction: the tag has less space
//! ```
//!
//! VB1 and VB2 of `budget` hold at each step. The holder of a lent guest asks the owner of the pool for each transaction, on a
//! thread of its own: no other thread of the program waits for the owner (VG2).

use ferrite_memory::planted;
use ferrite_pool::layout::{CHUNK, PAGE};

use crate::demote::{BATCH_PAGES, GuestStep};
use crate::frame_word::FrameContent;
use crate::guest_engine::{EngineState, GuestEngine};
use crate::{GuestError, Result};

impl GuestEngine {
    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.lock_reader().frames.len() as u64
    }

    /// Brings the guest closer to `frames` frames: adds all that it lacks, or `part` of them if the pool has no space for
    /// all; demotes a batch of the last `part` ones, or frees their space if they have no pages. Durable on return. One
    /// thread at a time calls this.
    ///
    /// # Errors
    /// The errors of the pool and the disk. The guest keeps every page and can be used.
    pub(crate) fn follow(&self, frames: u64, part: u64) -> Result<GuestStep> {
        let (has, usable) = {
            let state = self.lock_reader();
            (state.frames.len() as u64, state.frames.usable() as u64)
        };
        if frames >= has {
            if frames == usable {
                return Ok(GuestStep::Rests);
            }
            let mut reached = frames;
            if frames > has {
                if let Err(error) = self.space.widen(frames) {
                    reached = has + part;
                    if !error.is_want_of_space() || reached >= frames {
                        return Err(error.into());
                    }
                    self.space.widen(reached)?;
                }
                self.plane.add_frames(self.space.memory(), &self.space.frame_runs())?;
            }
            self.lock().frames.grow(reached as u32);
            return Ok(GuestStep::Worked);
        }
        self.shrink(has.saturating_sub(part).max(frames))
    }

    /// Demotes a batch of the truths in the frames from `first` on, or removes these frames.
    fn shrink(&self, first: u64) -> Result<GuestStep> {
        let mut truths = {
            let mut state = self.lock();
            self.space.check()?;
            state.frames.retire(first as u32);
            self.free_retired(&mut state)?;
            state.frames.retired_truths()
        };
        truths.truncate(BATCH_PAGES);
        if !truths.is_empty() && !planted!("guest: a chunk leaves with its truths") {
            let _one = self.batch.lock();
            let chosen = self.lock_tied()?.frames.leave(&truths);
            self.demote(&chosen)?;
            return Ok(GuestStep::Worked);
        }
        if truths.is_empty() && !self.lock().frames.is_retired() {
            return Ok(GuestStep::Rests);
        }
        let narrowed = self.space.narrow(first);
        // The owner of a lent guest may have freed the frames although its answer did not come (HO8).
        let is_perhaps_narrow = !self.space.sees_copies() && !planted!("guest: frames that are perhaps free stay");
        if narrowed.is_ok() || is_perhaps_narrow {
            self.lock().frames.truncate();
        }
        narrowed?;
        Ok(GuestStep::Worked)
    }

    /// Brings the guest closer to the frames that the owner of the pool wishes, if that is another process. If the owner
    /// refuses or has ended, the guest keeps what it has. One thread at a time calls this, which waits for the owner.
    ///
    /// # Errors
    /// The errors of the disk.
    pub(crate) fn follow_owner(&self) -> Result<GuestStep> {
        let Some(frames) = self.space.wished_frames() else { return Ok(GuestStep::Rests) };
        match self.follow(frames, CHUNK / PAGE) {
            Err(GuestError::Pool(_)) => Ok(GuestStep::Rests),
            other => other,
        }
    }

    /// Makes the copies in retired frames free.
    pub(crate) fn free_retired(&self, state: &mut EngineState) -> Result<()> {
        let copies = state.frames.retired_copies();
        if !planted!("guest: a chunk leaves under its words") {
            let words: Vec<_> = copies.iter().map(|frame| (*frame, FrameContent::Free)).collect();
            self.space.persist_words(&words)?;
        }
        copies.iter().for_each(|frame| state.drop_copy(*frame));
        Ok(())
    }
}
