//! A change of the bytes of a guest, while no client uses it.
//!
//! ```text
//!   grow     the disk is long enough --+
//!   shrink   truths to the disk -------+-- one transaction: tag has the new size, stamp pending (words: 0)
//!            -- stamp behind the new size, flush -- zeros at its old place, flush -- tag: nothing pending
//! ```
//!
//! - VS1. One transaction changes the size and notes the place of the stamp. The next opening moves a stamp that is
//!   pending before anything else uses the disk. So a crash leaves the old guest or the new one.
//! - VS2. The stamp at the old place is erased only after the new one is durable, and only if one of the two matches the
//!   pool. So a disk of another time is refused, as before.
//! - VS3. No frame has a page behind the new size: such words are zero in every image that has the new size. No byte that
//!   is not zero is cut off unless the caller names how many.
//! - VS4. Bytes that a guest in a file gains are zeros, also where the stamp lay.

use ferrite_memory::planted;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::PAGE;

use crate::frame_word::FrameContent;
use crate::guest_engine::GuestEngine;
use crate::guest_image::ByteWatch;
use crate::guest_layout::GuestLayout;
use crate::guest_spec::ensure_no_stamp;
use crate::guest_tie::move_stamp;
use crate::pending_change::PendingChange;
use crate::{GuestError, Result};

/// The bytes of a step.
const PIECE: u64 = 1 << 20;

impl GuestEngine {
    /// Changes the bytes of the guest to `size`, durable on return. No other thread uses the engine, which is of no use
    /// afterwards. `lose` names the bytes that are cut off, in pages that are not zeros. Returns false if `watch` stopped it,
    /// and the guest is as it was.
    ///
    /// # Errors
    /// [`GuestError::Refused`] for a size that is not possible or that would lose bytes; the errors of pool and disk.
    pub(crate) fn set_size(&self, size: u64, lose: Option<u64>, watch: &mut ByteWatch<'_>) -> Result<bool> {
        let before = self.size();
        let layout = GuestLayout::new(size, self.space.layout.data_bytes(), self.space.layout.identity)?;
        if size == before {
            return Ok(true);
        }
        if size.abs_diff(before) < DISK_STAMP_BYTES {
            let why = format!("a guest of {before} bytes grows or shrinks by {DISK_STAMP_BYTES} bytes at least");
            return Err(GuestError::Refused(why));
        }
        if size > before {
            self.ensure_disk_has(&layout)?;
        } else if !self.demote_all(&mut |done, all| watch(done * PAGE, all * PAGE))?
            || !self.ensure_lost(size, lose, watch)?
        {
            return Ok(false);
        }
        let words = self.words_behind(size)?;
        self.space.set_size_behind(size, PendingChange::Size { before }, &words)?;
        self.move_stamp(before, size)?;
        Ok(true)
    }

    /// Completes a change of the size that a crash interrupted.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if pool and disk do not match, and the errors of both.
    pub(crate) fn complete_size(&mut self) -> Result<()> {
        if let PendingChange::Size { before } = self.space.layout.pending {
            self.move_stamp(before, self.size())?;
            self.space.layout.pending = PendingChange::None;
        }
        Ok(())
    }

    fn move_stamp(&self, before: u64, size: u64) -> Result<()> {
        move_stamp(&self.space, &self.identity, &*self.disk, before, size)?;
        Ok(self.space.note_pending(PendingChange::None)?)
    }

    /// Refuses a disk that is too small for `layout`, or has data where its stamp goes.
    fn ensure_disk_has(&self, layout: &GuestLayout) -> Result<()> {
        let (has, needs) = (self.disk.geometry().size, layout.disk_bytes());
        if has < needs {
            return Err(GuestError::Refused(format!(
                "the disk of the guest {:?} has {has} bytes: a guest of {} bytes needs {needs}",
                self.identity.name, layout.size
            )));
        }
        ensure_no_stamp(&*self.disk, layout, "the disk")
    }

    /// Refuses if `lose` is not the number of bytes behind `size` in pages that are not zeros. Returns false if `watch`
    /// stopped it.
    fn ensure_lost(&self, size: u64, lose: Option<u64>, watch: &mut ByteWatch<'_>) -> Result<bool> {
        let (mut lost, mut bytes) = (0, vec![0; PIECE as usize]);
        for at in (size..self.size()).step_by(PIECE as usize) {
            if !watch(at - size, self.size() - size) {
                return Ok(false);
            }
            let bytes = &mut bytes[..PIECE.min(self.size() - at) as usize];
            self.read(at, bytes)?;
            let is_lost = |page: &&[u8]| page.iter().any(|byte| *byte != 0);
            lost += bytes.chunks(PAGE as usize).filter(is_lost).count() as u64 * PAGE;
        }
        if lose.unwrap_or(0) == lost || planted!("guest: a smaller guest loses bytes without a word") {
            return Ok(true);
        }
        let cut = self.size() - size;
        Err(GuestError::Refused(match lost {
            0 => format!("the last {cut} bytes of the guest are zeros: leave --lose out"),
            _ => format!("the last {cut} bytes of the guest have {lost} bytes of data: --lose {lost} cuts them off"),
        }))
    }

    /// Returns words of zeros for the frames that have pages behind `size` bytes (VS3).
    fn words_behind(&self, size: u64) -> Result<Vec<(u32, FrameContent)>> {
        let state = self.lock();
        let is_behind = |frame: &u32| state.frames.content(*frame).page().is_some_and(|page| page >= size / PAGE);
        let behind: Vec<u32> = (0..state.frames.len() as u32).filter(is_behind).collect();
        let is_truth = |frame: &&u32| matches!(state.frames.content(**frame), FrameContent::Truth(_));
        if let Some(frame) = behind.iter().find(is_truth) {
            let why = format!("frame {frame} has a page that is newer than the disk: end the users of the guest");
            return Err(GuestError::Refused(why));
        }
        if planted!("guest: pages behind the end keep their words") {
            return Ok(Vec::new());
        }
        Ok(behind.into_iter().map(|frame| (frame, FrameContent::Free)).collect())
    }
}
