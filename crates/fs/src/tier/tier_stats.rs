//! How a tier is, and what it has done, for people and scripts.

use std::sync::atomic::Ordering;

use ferrite_disk::DiskStats;
use ferrite_pool::layout::PAGE;
use serde::{Deserialize, Serialize};

use crate::file::FileLayer;
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES};
use crate::format::slot_table::SsdState;
use crate::store::tier_set::{TierMember, TierSet};
use crate::tier::TierWork;

/// Whether an SSD is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierSsdState {
    /// It is used.
    InUse,
    /// It is being removed: nothing is written to it.
    Leaving,
    /// It was not found, and the file system is only read.
    Missing,
}

/// An SSD of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierSsdStats {
    /// Its UUID, as hexadecimal digits.
    pub uuid: String,
    /// Its address.
    pub address: String,
    /// Whether it is used.
    pub state: TierSsdState,
    /// Bytes of its segments.
    pub bytes: u64,
    /// Bytes of pages that are on it only.
    pub used_bytes: u64,
    /// Bytes of its free segments.
    pub free_bytes: u64,
    /// Bytes that were trimmed since the file system was mounted.
    pub trimmed_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// The segments of a tier, without SSDs that leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentCounts {
    /// Segments.
    pub total: u64,
    /// Those in which nothing is needed.
    pub free: u64,
    /// Those in which some is needed, and some is not.
    pub fragmented: u64,
    /// Free ones that were written since they were trimmed.
    pub untrimmed: u64,
}

/// The pages of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierPageCounts {
    /// Pages in the pool that have a copy on an SSD.
    pub clean: u64,
    /// Pages that are on SSDs only.
    pub away: u64,
}

/// Requests of one kind to the SSDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdRequests {
    /// Requests.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of one request, in the mean.
    pub mean_bytes: u64,
}

impl SsdRequests {
    fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes, mean_bytes: bytes.checked_div(count).unwrap_or(0) }
    }
}

/// A tier, and what it has done since the file system was mounted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierStats {
    /// The SSDs.
    pub members: Vec<TierSsdStats>,
    /// The segments.
    pub segments: SegmentCounts,
    /// The pages.
    pub pages: TierPageCounts,
    /// Writes to SSDs, stamps included.
    pub writes: SsdRequests,
    /// Reads from SSDs.
    pub reads: SsdRequests,
    /// Trims of SSDs.
    pub trims: SsdRequests,
    /// Flushes of SSDs.
    pub flushes: u64,
    /// Segments that were written with pages of the pool.
    pub destaged_segments: u64,
    /// Pages in them.
    pub destaged_pages: u64,
    /// Clean pages that left the pool.
    pub evicted_pages: u64,
    /// Pages that came back to the pool because a change needed them there.
    pub brought_in_pages: u64,
    /// Segments that cleaning emptied.
    pub cleaned_segments: u64,
    /// Pages that cleaning moved.
    pub moved_pages: u64,
    /// The part of the pages of cleaned segments that did not have to move (1: all).
    pub efficiency: f64,
    /// Why nothing is written to the SSDs now.
    pub rests: String,
}

fn member_stats(set: &TierSet, member: &TierMember) -> TierSsdStats {
    let state = match (&member.disk, member.ssd.state) {
        (None, _) => TierSsdState::Missing,
        (Some(_), SsdState::Leaving) => TierSsdState::Leaving,
        (Some(_), SsdState::Joining | SsdState::InUse) => TierSsdState::InUse,
    };
    let asked = requests_of(member);
    let named: u64 = set.states_of(member).map(|state| state.named()).sum();
    let free = set.states_of(member).filter(|state| state.is_free()).count() as u64;
    TierSsdStats {
        uuid: member.ssd.uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
        address: member.ssd.address.clone(),
        state,
        bytes: member.ssd.segments * SEGMENT_BYTES,
        used_bytes: named * PAGE,
        free_bytes: free * SEGMENT_BYTES,
        trimmed_bytes: asked.trimmed_bytes,
        errors: asked.errors,
    }
}

fn requests_of(member: &TierMember) -> DiskStats {
    member.disk.as_ref().map(|disk| disk.stats()).unwrap_or_default()
}

/// Returns the stats of the tier of `files`, if it has one.
pub(crate) fn stats(files: &FileLayer, work: &TierWork) -> Option<TierStats> {
    let slots = files.slots.as_ref()?;
    let (set, counters) = (slots.set(), &slots.counters);
    let asked: Vec<DiskStats> = set.members().iter().map(|member| requests_of(member)).collect();
    let sum = |of: fn(&DiskStats) -> u64| asked.iter().map(of).sum::<u64>();
    let (cleaned_segments, moved_pages) = (counters.cleaned_segments.get(), counters.moved_pages.get());
    let recycled = cleaned_segments * SEGMENT_PAGES;
    let is_fragmented = |named: u64| (1..SEGMENT_PAGES).contains(&named);
    let fragmented = set.segments().filter(|(_, state)| is_fragmented(state.named())).count() as u64;
    let (total, free) = slots.segments();
    Some(TierStats {
        members: set.members().iter().map(|member| member_stats(&set, member)).collect(),
        segments: SegmentCounts { total, free, fragmented, untrimmed: slots.untrimmed() },
        pages: TierPageCounts { clean: slots.clean_pages(), away: slots.named() },
        writes: SsdRequests::new(sum(|asked| asked.writes), sum(|asked| asked.written_bytes)),
        reads: SsdRequests::new(sum(|asked| asked.reads), sum(|asked| asked.read_bytes)),
        trims: SsdRequests::new(sum(|asked| asked.trims), sum(|asked| asked.trimmed_bytes)),
        flushes: sum(|asked| asked.flushes),
        destaged_segments: counters.destaged_segments.get(),
        destaged_pages: counters.destaged_pages.get(),
        evicted_pages: counters.evicted_pages.get(),
        brought_in_pages: counters.brought_in_pages.get(),
        cleaned_segments,
        moved_pages,
        efficiency: if recycled == 0 { 1.0 } else { 1.0 - (moved_pages.min(recycled) as f64 / recycled as f64) },
        rests: rests(files, work),
    })
}

fn rests(files: &FileLayer, work: &TierWork) -> String {
    if let Some(failed) = files.slots.as_ref().and_then(|slots| slots.failures.why()) {
        return failed;
    }
    let reason = if files.now() < work.rests_until.load(Ordering::Relaxed) {
        "no segment can be filled with pages that may go, or none is free and cleaning gains nothing"
    } else {
        "enough of the pool is free or clean"
    };
    reason.into()
}
