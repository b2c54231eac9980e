//! Trimming: SSDs learn which segments nothing needs any more.
//!
//! The invariant TI14 (`tier.rs`) is kept here.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Access;
use ferrite_memory::Span;

use crate::Result;
use crate::format::segment::{SEGMENT_BYTES, SegmentNo};
use crate::store::slots::{SlotStore, ssd_error};
use crate::store::tier_set::{SegmentState, TierMember, TierSet};

/// Segments that are trimmed by one request at most. Few in tests, so that small SSDs too are trimmed by steps.
const TRIMMED_SEGMENTS_MAX: usize = if cfg!(test) { 3 } else { 128 };

/// Which free segments are trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrimScope {
    /// Those that were written since they were trimmed.
    Written,
    /// All.
    Free,
}

/// Segments that were trimmed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimmedRun {
    /// The segment behind the last one.
    pub next: SegmentNo,
    /// Bytes of the segments.
    pub bytes: u64,
}

fn is_wanted(state: &SegmentState, scope: TrimScope) -> bool {
    state.is_free() && (scope == TrimScope::Free || state.is_untrimmed.load(Ordering::SeqCst))
}

impl SlotStore {
    /// Returns how many free segments of SSDs that trim were written since they were trimmed.
    pub fn untrimmed(&self) -> u64 {
        let set = self.set();
        let trimming = set.members().iter().filter(|member| member.is_trimming());
        let states = trimming.flat_map(|member| set.states_of(member));
        states.filter(|state| is_wanted(state, TrimScope::Written)).count() as u64
    }

    /// Trims the first free segment from `from` on and its neighbours, by one request. Returns `None` if no segment is to
    /// be trimmed. A segment whose trim fails is not trimmed again until it is written (TI12). No other work waits for the
    /// SSD.
    ///
    /// # Errors
    /// Those of the SSD.
    pub fn trim_next(&self, from: SegmentNo, scope: TrimScope) -> Result<Option<TrimmedRun>> {
        let set = self.set();
        let Some((member, run)) = self.take_free_run(&set, from, scope) else { return Ok(None) };
        let (at, bytes) = (member.offset(SegmentNo(run.start)), (run.end - run.start) * SEGMENT_BYTES);
        let trimmed = member.disk().map(|disk| disk.trim(Span::new(at, bytes), Access::Cached));
        for state in run.clone().map(|number| set.state(SegmentNo(number))) {
            state.is_untrimmed.store(false, Ordering::SeqCst);
            state.is_busy.store(false, Ordering::SeqCst);
        }
        trimmed?.map_err(|error| ssd_error(member, at, &error))?;
        Ok(Some(TrimmedRun { next: SegmentNo(run.end), bytes }))
    }

    /// Takes the first free segment from `from` on and its neighbours, so that nothing is written to them.
    fn take_free_run<'a>(
        &self,
        set: &'a TierSet,
        from: SegmentNo,
        scope: TrimScope,
    ) -> Option<(&'a TierMember, Range<u64>)> {
        // While this lock is held, no segment is taken for writing.
        let _taking = self.cursor.lock();
        let is_wanted = |number: &u64| is_wanted(set.state(SegmentNo(*number)), scope);
        let find = |member: &'a Arc<TierMember>| {
            let mut numbers = member.numbers().skip_while(|number| *number < from.0);
            let first = numbers.find(is_wanted)?;
            let last = numbers.take(TRIMMED_SEGMENTS_MAX - 1).take_while(is_wanted).last();
            Some((&**member, first..last.unwrap_or(first) + 1))
        };
        let trimming = set.members().iter().filter(|member| member.is_trimming());
        let (member, run) = trimming.filter_map(find).min_by_key(|(_, run)| run.start)?;
        run.clone().for_each(|number| set.state(SegmentNo(number)).is_busy.store(true, Ordering::SeqCst));
        Some((member, run))
    }
}
