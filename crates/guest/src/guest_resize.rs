//! A change of a guest's part of the pool, while no process has the guest open.
//!
//! The guest has a fixed share from then on. No truth leaves with its frame (VB1): the guest is refused, and has to be
//! flushed first.

use std::sync::Arc;

use ferrite_memory::planted;
use ferrite_pool::Pool;
use ferrite_pool::layout::{CHUNK, PAGE};

use crate::frame_space::FrameSpace;
use crate::frame_word::FrameContent;
use crate::guest_layout::GuestLayout;
use crate::guest_share::{GuestShare, ShareRecord};
use crate::{GuestError, Result};

/// Changes the bytes of the pool that hold the pages of the guest called `name` to `pm_bytes`. Durable on return. Frames
/// that leave hold no truth if the guest was flushed before.
///
/// # Errors
/// [`GuestError::Refused`] for a size that no guest has, and for truths in frames that would leave; [`GuestError::Damaged`],
/// and the errors of the pool. The guest is as it was, and may have fewer copies.
pub(crate) fn resize(pool: &Arc<Pool>, name: &str, pm_bytes: u64) -> Result<()> {
    let lease = pool.hold(name)?;
    let tag = lease.tag();
    let space = FrameSpace::of(lease)?;
    let GuestLayout { size, identity, frames, .. } = space.layout;
    let new = GuestLayout::new(size, pm_bytes, identity)?;
    match new.frames < frames {
        true => drop_frames(&space, new.frames)?,
        false => pool.with_spare(|| space.widen(new.frames))?,
    }
    let record =
        ShareRecord::read(&tag).ok_or_else(|| GuestError::Damaged(format!("the share of {name:?} is damaged")))?;
    let share = GuestShare { weight: record.share.weight, ..GuestShare::fixed((pm_bytes / CHUNK) as u32) };
    Ok(space.set_attributes(new.attributes(&ShareRecord { share, ..record }))?)
}

/// Frees the last chunk of a closed guest in `space`, unless fewer than `least` frames or no chunk would be left. The
/// guest may have fewer frames now than the caller read. Durable on return.
///
/// # Errors
/// As [`resize`].
pub(crate) fn drop_last(space: &FrameSpace, least: u64) -> Result<()> {
    let chunk = CHUNK / PAGE;
    let frames = space.layout.frames.saturating_sub(chunk);
    if frames < least.max(chunk) {
        return Ok(());
    }
    drop_frames(space, frames)
}

/// Frees the space of the frames from `first` on, behind their durably zero words (VB1).
fn drop_frames(space: &FrameSpace, first: u64) -> Result<()> {
    let mut copies = Vec::new();
    for frame in first as u32..space.layout.frames as u32 {
        match space.content(frame) {
            Some(FrameContent::Free) => {}
            Some(FrameContent::Copy(_)) => copies.push((frame, FrameContent::Free)),
            Some(FrameContent::Truth(_)) if planted!("guest: a truth leaves with its frame") => {
                copies.push((frame, FrameContent::Free));
            }
            Some(FrameContent::Truth(page)) => {
                let why = format!("page {page} is newer than the disk: flush the guest, and end its users");
                return Err(GuestError::Refused(why));
            }
            None => {
                return Err(GuestError::Damaged(format!(
                    "the word of frame {frame} is damaged: run `ferrite pool check`"
                )));
            }
        }
    }
    if planted!("guest: a frame leaves under its word") {
        copies.clear();
    }
    Ok(space.narrow_behind(first, &copies)?)
}
