//! When free segments are trimmed (TI14): behind other work, and when a user asks.

use std::sync::atomic::Ordering;

use ferrite_pool::{Progress, ProgressWatch};

use crate::Result;
use crate::file::FileLayer;
use crate::format::segment::SegmentNo;
use crate::store::slot_trim::TrimScope;
use crate::store::slots::SlotStore;
use crate::store::tier_members;
use crate::tier::TierWork;

/// The time without other work after which segments are trimmed, in nanoseconds.
const IDLE_NS: i64 = 10_000_000_000;
/// The time between two looks for segments to trim, in nanoseconds.
const LOOK_NS: i64 = 1_000_000_000;
/// Segments that are worth a trim beside other work, and the part of all segments that is free then.
const WORTH_SEGMENTS: u64 = 128;
const FREE_SHARE: u64 = 4;

/// Trims some free segments if it is time to. Returns true if it did.
///
/// A backup of the pool is good with its SSDs until the next segment is written: until then nothing is trimmed here.
pub(crate) fn step_trim(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<bool> {
    let now = files.now();
    if slots.has_copy_note() || now < work.next_trim.load(Ordering::Relaxed) {
        return Ok(false);
    }
    work.next_trim.store(now + LOOK_NS, Ordering::Relaxed);
    let untrimmed = slots.untrimmed();
    let is_worth = || {
        let (all, free) = slots.segments();
        untrimmed >= WORTH_SEGMENTS && free * FREE_SHARE > all
    };
    if untrimmed == 0 || now < work.worked_at.load(Ordering::Relaxed) + IDLE_NS && !is_worth() {
        return Ok(false);
    }
    work.next_trim.store(now, Ordering::Relaxed);
    Ok(slots.trim_next(SegmentNo(0), TrimScope::Written)?.is_some())
}

/// See [`crate::FileSystem::trim_tier`].
pub(crate) fn trim_tier(files: &FileLayer, progress: ProgressWatch<'_>) -> Result<u64> {
    let Some(slots) = &files.slots else { return Ok(0) };
    files.refuse_if_read_only()?;
    tier_members::renew_ties(files.pool(), &files.tag(), slots, files.now() as u16)?;
    let (mut next, mut bytes) = (SegmentNo(0), 0);
    while let Some(run) = slots.trim_next(next, TrimScope::Free)? {
        (next, bytes) = (run.next, bytes + run.bytes);
        if !progress(Progress { done: next.0, total: slots.set().end(), what: "trimming segments".into() }) {
            return Err(ferrite_pool::Error::Cancelled("the trim").into());
        }
    }
    Ok(bytes)
}
