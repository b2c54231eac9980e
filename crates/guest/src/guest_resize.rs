//! A change of a guest's part of the pool, while no process has the guest open.
//!
//! ```text
//!   more frames    new words: zeros, fence --------------------------- transaction: the tag has the space
//!   fewer frames   words of the copies in frames that leave: 0, fence - transaction: the tag has less space
//! ```
//!
//! - VB1. A frame leaves only behind its durably zero word, and a frame joins with one. No truth leaves: the guest is
//!   refused, and has to be flushed first.
//! - VB2. Only the holder of the guest's lease changes its space (HO2), by one transaction: after a crash the guest has its
//!   old frames or its new ones, and every page its truth (VR1).

use std::sync::Arc;

use ferrite_memory::{Scheme, Span, planted};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Extent, Pool, Role, SpaceNeed, Stream, Tag, TagChange, Zone};

use crate::frame_space::FrameSpace;
use crate::frame_word::FrameContent;
use crate::guest_layout::GuestLayout;
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
    if new.frames < frames {
        free_words(&space, new.frames)?;
    }
    let lacks = |role: Role, bytes: u64| bytes.saturating_sub(Stream::new(&tag.extents, role).len());
    let needs = [
        SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: lacks(Role::MAP, new.map_bytes()) },
        SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: lacks(Role::DATA, new.data_bytes()) },
    ];
    let add: Vec<SpaceNeed> = needs.into_iter().filter(|need| need.bytes > 0).collect();
    let keep = kept(&tag, new.data_bytes() / PAGE);
    let change = TagChange { size, attributes: tag.attributes, add: &add, keep: &keep };
    pool.with_spare(|| pool.change_tag(&tag, &change, |added| zero_words(pool, added)))?;
    Ok(())
}

/// Makes the words of the frames from `first` on durably zero (VB1).
fn free_words(space: &FrameSpace, first: u64) -> Result<()> {
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
        return Ok(());
    }
    Ok(space.persist_words(&copies)?)
}

/// Returns the extents of `tag` with the first `pages` of its frames at most.
fn kept(tag: &Tag, pages: u64) -> Vec<Extent> {
    let mut left = pages;
    let cut = |extent: &Extent| {
        let mut part = *extent;
        if part.role == Role::DATA {
            part.pages = u64::from(part.pages).min(left) as u32;
            left -= u64::from(part.pages);
        }
        (part.pages > 0).then_some(part)
    };
    tag.extents.iter().filter_map(cut).collect()
}

/// Zeros the words of frames that join (VB1).
fn zero_words(pool: &Pool, added: &[Extent]) -> ferrite_pool::Result<()> {
    let (memory, map) = (pool.memory(), Stream::new(added, Role::MAP));
    map.runs(Span::new(0, map.len())).for_each(|run| memory.zero(run, Scheme::Nt));
    Ok(memory.drain()?)
}
