//! The tier: cold pages of files go to SSDs in whole segments, and come back when they are wanted
//! (nvm-storage-hierarchy.txt chapter 3).
//!
//! Names, sizes, index words and hot content stay in the pool. A page is *dirty* if only the pool has it, *clean* if a
//! slot of an SSD has the same bytes, and *away* if only the slot has it. A dirty page is destaged: it becomes clean. A
//! clean page is evicted: it becomes away, without a request to an SSD. So no durable write waits for an SSD.
//!
//! - TI1. A word names a slot only when the slot's bytes and the summary of its segment are durable.
//! - TI2. The change by which a word names a slot sets its bit, and the change that ends that clears it. So bits equal
//!   names at every crash, and a segment becomes free in the change that takes its last name.
//! - TI3. Segments are written whole, and only free ones: without names and shadows, and not being written.
//! - TI4. A shadow counts while no byte of the page was stored since it was copied. A thread that stores marks the page
//!   behind its bytes, before its pin or its lock ends. The copy and the cleared mark come from a thread that waited for
//!   all earlier pins and keeps writers out (FL3). A page that is allocated is marked.
//! - TI5. A page is evicted under its file's lock, after all earlier pins have ended: its word is as it was, and its
//!   shadow still counts. It is freed once, however often the list of clean pages has it.
//! - TI6. Shadows, marks and cursors are in DRAM. Losing them loses no byte.
//! - TI7. No lock is held over a request to an SSD, except that one thread destages or cleans at a time. What was read
//!   counts if the word is the same afterwards and the check fits; the same word with other bytes is damage.
//! - TI8. Inodes, words, names, attributes, link targets, pages behind the end, and bytes on which a size rests (FP3)
//!   are never away.
//! - TI9. All space that `statfs` reports as free can be used.
//! - TI10. A page that is brought in is durable in the pool before its word says so; its slot is named until then.
//! - TI11. An SSD is used only if its stamp has the pool's generation of the tie. Both move at each opening for changes,
//!   and after each backup of the pool before the next segment is written. So an older copy of the pool or of the SSD is
//!   refused.
//! - TI12. Each step of background work makes progress, or rests. After three failures in a row nothing is written
//!   until a slot was freed; without that, one segment is tried a minute later.
//! - TI13. The file system has a tier once all of its SSDs are members of the pool and stamped. What a crash left before
//!   that is undone when the file system is opened, or gains a tier.
//! - TI14. Only free segments are trimmed: without names, and the change that took the last one is durable. A segment is
//!   not written while it is trimmed. A trim counts as a write for TI11.
//! - TI15. An SSD that joins a tier is listed as joining, made a member of the pool and stamped, and then listed as in use.
//!   Segments on it are written only after that. So each name leads to an SSD that is stamped.
//! - TI16. An SSD that leaves is listed so. From then on it gets no shadows and no names, and its pages move (TI2). It is a
//!   member of the pool until it has no names; then the table forgets it, and its stamp is erased last. What a crash left
//!   goes on with the next removal, or ends when the file system is opened.
//! - TI17. The table has room for an SSD that grew, and lists it so, before the first of its new segments is written.
//! - TI18. A pool takes an SSD that a later life of it has used only after the table says, durably, which segments with
//!   names were overwritten. These are never read until they are written again. The next segment has a sequence that no
//!   life has used.
//! - TI20. A page that was read once from an SSD is on probation. If more than a sixteenth of the pool is on probation,
//!   such a page is evicted before the other clean pages. It leaves probation when it is read again. So a scan evicts
//!   its own pages.
//! - TI21. A stopped client holds back the pages of files that its session ever had a lease on, and no others. Files are
//!   distinguished by their locks. A session is noted before its lease can be used.
//! - TI22. A backup that copies SSDs has a hold. The freeze of the pool takes it: the stamps and the segments that words
//!   name at that moment belong to the image. No held segment is written or trimmed until the hold ends, and no SSD leaves.
//! - TI23. A page that is read ahead is read once: a reader that wants it waits. If the read fails, that is forgotten, and
//!   the reader reads the page itself. The threads that read ahead end before the store does.

pub(crate) mod clean_segments;
pub(crate) mod destage;
pub(crate) mod evacuate;
pub(crate) mod evict;
pub(crate) mod list_balance;
pub mod lost_files;
pub mod scrub;
pub(crate) mod sweep;
pub mod tier_report;
pub mod tier_stats;
pub(crate) mod trim_segments;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Progress, ProgressWatch};
use parking_lot::Mutex;

use crate::file::FileLayer;
use crate::format::segment::SEGMENT_BYTES;
use crate::format::tier_policy::TierPolicy;
use crate::store::slots::SlotStore;
use crate::tier::list_balance::ListBalance;
use crate::tier::sweep::SweepCursor;
use crate::{Error, Result};

/// The time between two searches for dirty pages that may go, if there are too few for a segment, in nanoseconds.
const REST_NS: i64 = 1_000_000_000;

/// The time between failures of writes to the SSDs and the next write, in nanoseconds.
const RETRY_NS: i64 = 60_000_000_000;

/// No time.
const NEVER: i64 = 0;

/// The part of all segments that is free after a cleaning that a user asks for.
const CLEANED_SHARE: u64 = 10;

/// How far segments are cleaned when a user asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningGoal {
    /// Until a tenth of all segments is free.
    Usual,
    /// Until no more segments become free.
    All,
}

/// Where the sweeps over all files are.
#[derive(Debug, Default)]
pub(crate) struct TierWork {
    destage: Mutex<SweepCursor>,
    /// One thread evicts at a time.
    evict: Mutex<()>,
    balance: ListBalance,
    /// More pages were dirty than the high bound allows, and since then not as few as the low bound.
    is_destaging: AtomicBool,
    /// No dirty pages for a segment are looked for before this time, because there were too few.
    rests_until: AtomicI64,
    /// The time of the last step that moved pages.
    worked_at: AtomicI64,
    /// Writes that failed are tried again then.
    retries_at: AtomicI64,
    /// No segments to trim are looked for before this time.
    next_trim: AtomicI64,
    /// No segment is cleaned ahead of its use before this time, because that gained nothing.
    cleaning_rests_until: AtomicI64,
}

/// Bytes of dirty pages at which destaging begins and ends.
struct DirtyBounds {
    high: u64,
    low: u64,
}

impl DirtyBounds {
    /// The bounds for `share` bytes of dirty pages.
    fn of(policy: TierPolicy, share: u64) -> Self {
        let (high, low) = match policy {
            TierPolicy::Paper => (share / 100 * 80, share / 100 * 50),
            TierPolicy::Ferrite => (share / 100 * 95, (share / 100 * 95).saturating_sub(2 * SEGMENT_BYTES)),
        };
        Self { high, low }
    }
}

/// Does a bounded piece of the tier's work. Returns true if there may be more.
pub(crate) fn step_tier(files: &FileLayer, work: &TierWork) -> Result<bool> {
    let Some(slots) = files.slots.as_ref().filter(|slots| may_write(files, slots, work)) else { return Ok(false) };
    if step_pages(files, slots, work)? {
        work.worked_at.store(files.now(), Ordering::Relaxed);
        return Ok(true);
    }
    trim_segments::step_trim(files, slots, work)
}

/// Returns true if segments may be written. After failures one may be, once they have rested (TI12).
fn may_write(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> bool {
    if slots.failures.may_write() {
        work.retries_at.store(NEVER, Ordering::Relaxed);
        return true;
    }
    let (now, at) = (files.now(), work.retries_at.load(Ordering::Relaxed));
    if at != NEVER && (now < at || planted!("fs: endless rest")) {
        return false;
    }
    work.retries_at.store(now + RETRY_NS, Ordering::Relaxed);
    if at != NEVER {
        slots.retry();
    }
    at != NEVER
}

/// Evicts, destages or cleans some pages. Returns true if it did.
fn step_pages(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<bool> {
    let content = files.content_space();
    if content.free < files.free_bytes_wanted() && evict::evict(files, slots, work)? > 0 {
        return Ok(true);
    }
    let now = files.now();
    if slots.wants_cleaning() && now >= work.cleaning_rests_until.load(Ordering::Relaxed) {
        if clean_segments::clean(files, slots, work)? {
            return Ok(true);
        }
        work.cleaning_rests_until.store(now + REST_NS, Ordering::Relaxed);
    }
    let (reread, overwritten) = slots.take_mistakes();
    work.balance.note_mistakes(reread, overwritten);
    work.balance.adjust(slots.policy(), files.memory().size() / PAGE);
    let dirty = content.used.saturating_sub(slots.clean_pages() * PAGE);
    let bounds = DirtyBounds::of(slots.policy(), work.balance.dirty_bytes(content.free + content.used));
    let is_over = dirty > if work.is_destaging.load(Ordering::Relaxed) { bounds.low } else { bounds.high };
    work.is_destaging.store(is_over, Ordering::Relaxed);
    if !is_over || now < work.rests_until.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let is_done = destage_or_clean(files, slots, work)?;
    if !is_done {
        work.rests_until.store(now + REST_NS, Ordering::Relaxed);
    }
    Ok(is_done)
}

/// Frees space for a change that finds none. Returns true if some was freed.
pub(crate) fn make_room(files: &FileLayer, work: &TierWork) -> Result<bool> {
    let Some(slots) = &files.slots else { return Ok(false) };
    if evict::evict(files, slots, work)? > 0 {
        return Ok(true);
    }
    // If no page was dirty, another thread has just written the last ones: they are clean now.
    let is_destaged = match destage_or_clean(files, slots, work) {
        // A partly filled segment is better than a failed change.
        Ok(false) => destage::destage(files, slots, work, destage::Fill::Partly),
        done => done,
    };
    if evict::evict(files, slots, work)? > 0 {
        return Ok(true);
    }
    is_destaged.map(|_| false)
}

/// Writes a segment of dirty pages, and first makes one free if none is.
fn destage_or_clean(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<bool> {
    if slots.segments().1 < 2 && !clean_segments::clean(files, slots, work)? {
        return Ok(false);
    }
    destage::destage(files, slots, work, destage::Fill::Whole)
}

/// See [`crate::FileSystem::drain_tier`].
pub(crate) fn drain_tier(files: &FileLayer, work: &TierWork) -> Result<()> {
    let Some(slots) = &files.slots else { return Ok(()) };
    loop {
        while destage::destage(files, slots, work, destage::Fill::Partly)? {}
        if let Some(why) = slots.failures.why() {
            return Err(Error::Ssd(why));
        }
        if slots.segments().1 >= 2 || !clean_segments::clean(files, slots, work)? {
            return Ok(());
        }
    }
}

/// See [`crate::TierUpkeep::clean`].
pub(crate) fn clean_tier(
    files: &FileLayer,
    work: &TierWork,
    goal: CleaningGoal,
    progress: ProgressWatch<'_>,
) -> Result<()> {
    let Some(slots) = &files.slots else { return Ok(()) };
    files.refuse_if_read_only()?;
    let before = slots.counters.cleaned_segments.get();
    let is_reached = || {
        let (all, free) = slots.segments();
        goal == CleaningGoal::Usual && free * CLEANED_SHARE >= all
    };
    while !is_reached() && clean_segments::clean(files, slots, work)? {
        let done = slots.counters.cleaned_segments.get() - before;
        if !progress(Progress { done, total: 0, what: "cleaning segments".into() }) {
            return Err(ferrite_pool::Error::Cancelled("the cleaning").into());
        }
    }
    Ok(())
}
