//! The whole content of a guest: written to a file, and replaced by a file.
//!
//! ```text
//!   export   client's writes wait -- each page from its truth -- file
//!   import   tag: import pending -- words: 0, fence -- file -- disk, flush -- tag: nothing pending
//! ```
//!
//! - VC1. The tag says durably that an import is pending before the first byte of the disk changes, and until the last is
//!   durable. A guest with a pending import does not open. So a crash leaves the old content, the new content, or a guest
//!   that is refused until an import has ended.
//! - VC2. An export is of one moment: no write of a client begins or ends while it reads.
//! - VC3. No frame has a page of the content before an import: its words are durably zero before the disk changes.

use std::time::Duration;

use ferrite_disk::{Access, Zeroing};
use ferrite_memory::{Span, planted};
use ferrite_pool::layout::PAGE;

use crate::frame_word::FrameContent;
use crate::guest_engine::GuestEngine;
use crate::pending_change::PendingChange;
use crate::{GuestError, Result};

/// The bytes of a step.
const PIECE: usize = 1 << 20;
/// The time after which an export that waits for writes looks whether it is cancelled.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reports the bytes done and all. Returns false to stop.
pub(crate) type ByteWatch<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// The bytes that an export or an import copied, and those that are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopiedBytes {
    pub copied: u64,
    pub zeros: u64,
}

/// Returns the runs of pages of `bytes` that are zeros, or are not: the offset, the length, and whether they are zeros.
fn runs(bytes: &[u8]) -> impl Iterator<Item = (usize, usize, bool)> + use<> {
    let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
    let pages: Vec<&[u8]> = bytes.chunks(PAGE as usize).collect();
    let alike: Vec<(usize, bool)> = pages
        .chunk_by(|one, next| is_zero(one) == is_zero(next))
        .map(|run| (run.iter().map(|page| page.len()).sum(), is_zero(run[0])))
        .collect();
    alike.into_iter().scan(0, |at, (len, is_zero)| {
        *at += len;
        Some((*at - len, len, is_zero))
    })
}

impl GuestEngine {
    /// Passes each run of pages that are not zeros to `write`, all of one moment (VC2). Returns `None` if `watch` stopped it.
    ///
    /// # Errors
    /// The errors of the disk and of `write`.
    pub(crate) fn export(
        &self,
        write: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
        watch: &mut ByteWatch<'_>,
    ) -> Result<Option<CopiedBytes>> {
        let size = self.size();
        let _still = loop {
            match self.writes.try_write_for(PATIENCE) {
                _ if planted!("guest: clients write while a guest is exported") => break None,
                Some(still) => break Some(still),
                None if watch(0, size) => {}
                None => return Ok(None),
            }
        };
        let mut all = CopiedBytes::default();
        let mut buffer = vec![0; PIECE];
        for at in (0..size).step_by(PIECE) {
            if !watch(at, size) {
                return Ok(None);
            }
            let bytes = &mut buffer[..PIECE.min((size - at) as usize)];
            self.read(at, bytes)?;
            for (offset, len, is_zero) in runs(bytes) {
                if is_zero {
                    all.zeros += len as u64;
                    continue;
                }
                write(at + offset as u64, &bytes[offset..offset + len])?;
                all.copied += len as u64;
            }
        }
        Ok(Some(all))
    }

    /// Replaces the content of the guest by `bytes` bytes, which `read` returns by their offset, and zeros behind them.
    /// Durable on return. No other thread uses the engine. Returns `None` if `watch` stopped it.
    ///
    /// # Errors
    /// [`GuestError::Refused`] for more bytes than the guest has; the errors of the pool, the disk and `read`. Behind the
    /// first check the guest has no content until an import ends (VC1).
    pub(crate) fn import(
        &self,
        bytes: u64,
        read: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
        watch: &mut ByteWatch<'_>,
    ) -> Result<Option<CopiedBytes>> {
        let size = self.size();
        if bytes > size {
            return Err(GuestError::Refused(format!(
                "{bytes} bytes do not fit a guest of {size} bytes: `ferrite guest resize POOL NAME --size {}` enlarges it",
                bytes.next_multiple_of(PAGE)
            )));
        }
        let _one = self.batch.lock();
        if !planted!("guest: an import begins before the tag says so") {
            self.space.note_pending(PendingChange::Import)?;
        }
        if !planted!("guest: an import keeps the words of old pages") {
            self.forget_pages()?;
        }
        // A copy of the pool that has the old content does not match the disk from here on (VR9). A later copy has the
        // pending import.
        drop(self.lock_tied()?);
        let mut all = CopiedBytes::default();
        let mut buffer = vec![0; PIECE];
        for at in (0..size).step_by(PIECE) {
            if !watch(at, size) {
                return Ok(None);
            }
            let piece = &mut buffer[..PIECE.min((size - at) as usize)];
            let (from_file, zeros) = piece.split_at_mut((bytes.saturating_sub(at) as usize).min(piece.len()));
            read(at, from_file)?;
            zeros.fill(0);
            for (offset, len, is_zero) in runs(piece) {
                let span = Span::new(at + offset as u64, len as u64);
                if is_zero {
                    self.disk.write_zeroes(span, Zeroing { keep_space: true, ..Zeroing::default() })?;
                    all.zeros += span.len;
                } else {
                    self.disk.write(span.at, &piece[offset..offset + len], Access::Cached)?;
                    all.copied += span.len;
                }
            }
        }
        if !planted!("guest: an import ends before its bytes are durable") {
            self.disk.flush()?;
        }
        self.space.note_pending(PendingChange::None)?;
        Ok(Some(all))
    }

    /// Makes every frame free (VC3).
    fn forget_pages(&self) -> Result<()> {
        let mut state = self.lock();
        self.space.check()?;
        let has_page = |frame: &u32| state.frames.content(*frame).page().is_some();
        let used: Vec<u32> = (0..state.frames.len() as u32).filter(has_page).collect();
        let words: Vec<_> = used.iter().map(|frame| (*frame, FrameContent::Free)).collect();
        self.space.persist_words(&words)?;
        used.iter().for_each(|frame| state.frames.set(*frame, FrameContent::Free));
        Ok(())
    }
}
