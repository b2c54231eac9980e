//! Slots of the tier's SSDs: which are free, what is read from them, and which pages of the pool have a copy there.
//!
//! A clean page is one with a shadow: a slot that has the same bytes. Shadows are in DRAM alone, so losing them loses no
//! byte.
//!
//! The invariants TI1 to TI4, TI7 and TI12 (`tier.rs`) are kept here.

pub(crate) mod held_segments;
mod shadows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ferrite_disk::Access;
use ferrite_memory::{Memory, planted};
use ferrite_pool::layout::PAGE;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::format::segment::{SEGMENT_BLOCKS, SEGMENT_PAGES, SegmentNo, SegmentSalt, SegmentSummary, Slot};
use crate::format::slot_table::SsdState;
use crate::format::tier_policy::TierPolicy;
use crate::format::word::{AwayPage, IndexWord, NamedBy};
use crate::share::layout::shared_state::SharedState;
use crate::store::clean_list::CleanList;
use crate::store::fetched_pages::{FetchedPage, FetchedPages};
use crate::store::read_ghosts::ReadGhosts;
use crate::store::read_streams::ReadStreams;
use crate::store::slots::held_segments::SegmentHold;
use crate::store::tier_counters::TierCounters;
use crate::store::tier_set::{SegmentState, TierMember, TierSet};
use crate::store::write_failures::WriteFailures;
use crate::{Error, Result};

/// Segments are cleaned while fewer than one in so many are free.
const FREE_SEGMENTS_SHARE: u64 = 50;

/// The purpose for which a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentUse {
    /// Pages of the pool.
    Destaging,
    /// Pages of sparser segments.
    Cleaning,
}

/// The slots of a file system with a tier.
pub(crate) struct SlotStore {
    pub salt: SegmentSalt,
    /// What was done since the file system was opened.
    pub counters: TierCounters,
    set: RwLock<Arc<TierSet>>,
    /// One caller at a time changes the SSDs.
    membership: Mutex<()>,
    /// Of the segment written last.
    sequence: AtomicU64,
    /// The segment that is looked at next.
    pub(super) cursor: Mutex<u64>,
    /// By page of the pool: the word of the slot with the same bytes, or 0.
    shadows: Box<[AtomicU64]>,
    /// The marks of the pages of the pool.
    shared_state: Arc<SharedState>,
    /// Pages that have a shadow, whether it counts or not.
    shadowed: AtomicU64,
    /// The pages that have a shadow, in the order of eviction.
    clean: CleanList,
    /// Pages that were read or are being read ahead.
    pub fetched: FetchedPages,
    /// Sequential reads.
    pub streams: ReadStreams,
    ghosts: ReadGhosts,
    policy: AtomicU32,
    /// Pages that were read again soon, and clean pages that were overwritten.
    reread: AtomicU64,
    overwritten: AtomicU64,
    /// Segments that could not be written one after the other, and why the last one could not.
    pub failures: WriteFailures,
    /// The pool may have been copied since the SSDs got their generation (TI11).
    may_be_copied: AtomicBool,
    hold: SegmentHold,
}

fn table_of<T: Default>(pages: u64) -> Box<[T]> {
    (0..pages).map(|_| T::default()).collect()
}

impl SlotStore {
    /// Reads the descriptors of the SSDs in `set`, of a file system in a pool in `memory`.
    pub fn load(
        memory: &dyn Memory,
        set: TierSet,
        salt: SegmentSalt,
        policy: TierPolicy,
        shared_state: &Arc<SharedState>,
    ) -> Self {
        set.load(memory);
        let last = set.sequence_max();
        let pages = memory.size() / PAGE;
        Self {
            salt,
            counters: TierCounters::default(),
            set: RwLock::new(Arc::new(set)),
            membership: Mutex::new(()),
            sequence: AtomicU64::new(last),
            cursor: Mutex::new(0),
            shadows: table_of(pages),
            shared_state: Arc::clone(shared_state),
            shadowed: AtomicU64::new(0),
            clean: CleanList::new(pages),
            fetched: FetchedPages::new(pages / 16),
            streams: ReadStreams::default(),
            ghosts: ReadGhosts::new(pages),
            policy: AtomicU32::new(policy as u32),
            reread: AtomicU64::new(0),
            overwritten: AtomicU64::new(0),
            failures: WriteFailures::default(),
            may_be_copied: AtomicBool::new(false),
            hold: SegmentHold::default(),
        }
    }

    /// Returns the SSDs as they are now.
    pub fn set(&self) -> Arc<TierSet> {
        Arc::clone(&self.set.read())
    }

    /// Allows the caller to change the SSDs until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Refused`] if another caller does.
    pub fn changing(&self) -> Result<MutexGuard<'_, ()>> {
        let why = "SSDs of the file system are being added, grown or removed: wait for that, or stop it first";
        self.membership.try_lock().ok_or_else(|| Error::Refused(why.into()))
    }

    /// Replaces the SSDs. Shadows that are being set are set before that.
    pub fn replace(&self, change: impl FnOnce(&TierSet) -> TierSet) {
        let mut set = self.set.write();
        *set = Arc::new(change(&set));
    }

    /// Returns true if an SSD has `slot`.
    pub fn has(&self, slot: Slot) -> bool {
        slot.block() > 0 && self.set.read().member_of(slot.segment()).is_some()
    }

    /// Returns how many segments there are, and how many of them are free. Those of an SSD that leaves do not count.
    pub fn segments(&self) -> (u64, u64) {
        let count = |(all, free), (_, state): (SegmentNo, &SegmentState)| (all + 1, free + u64::from(state.is_free()));
        self.set.read().segments().fold((0, 0), count)
    }

    /// Takes a free segment for what is written next, with the sequence of that; `None` if none is free (TI3), or only
    /// one is and it is not for cleaning.
    pub fn take_segment(&self, purpose: SegmentUse) -> Option<(SegmentNo, u64)> {
        let mut cursor = self.cursor.lock();
        if purpose == SegmentUse::Destaging && self.segments().1 < 2 {
            return None;
        }
        let set = self.set();
        let end = set.end().max(1);
        let may_be = |segment: &SegmentNo| {
            let is_free = set.state(*segment).is_free() || planted!("fs: segment with names is reused");
            set.member_of(*segment).is_some_and(|member| member.is_writable()) && is_free
        };
        // Those with old bytes come first: they need no trim then, and behind a sparse file the host has their space.
        let free = || (0..end).map(|step| SegmentNo((*cursor + step) % end)).filter(may_be);
        let is_untrimmed = |segment: &SegmentNo| set.state(*segment).is_untrimmed.load(Ordering::SeqCst);
        let found = free().find(is_untrimmed).or_else(|| free().next())?;
        *cursor = found.0 + 1;
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let state = set.state(found);
        state.is_busy.store(true, Ordering::SeqCst);
        // What was read of it before counts no more.
        state.sequence.store(sequence, Ordering::SeqCst);
        Some((found, sequence))
    }

    /// Ends the use of a segment that was taken.
    pub fn leave_segment(&self, segment: SegmentNo) {
        self.set.read().state(segment).is_busy.store(false, Ordering::SeqCst);
    }

    /// Returns the sequence of what was written to `segment` last.
    pub fn sequence_of(&self, segment: SegmentNo) -> u64 {
        self.set.read().state(segment).sequence.load(Ordering::SeqCst)
    }

    /// Writes `segment`, summary and pages. Durable on return.
    ///
    /// # Errors
    /// Those of the SSD. The segment is not used again before [`SlotStore::retry`].
    pub fn write_segment(&self, segment: SegmentNo, bytes: &[u8]) -> Result<()> {
        let written = self.write_and_flush(segment, bytes);
        match &written {
            Ok(()) => self.failures.forget(),
            Err(error) => {
                self.set.read().state(segment).is_bad.store(true, Ordering::SeqCst);
                self.failures.note(error);
            }
        }
        written
    }

    /// Notes that the pool may have been copied: the SSDs need a new generation before a segment is written (TI11).
    pub fn note_copy(&self) {
        self.may_be_copied.store(true, Ordering::SeqCst);
    }

    /// Returns true if the pool may have been copied since.
    pub fn has_copy_note(&self) -> bool {
        self.may_be_copied.load(Ordering::SeqCst)
    }

    /// Returns true once for each such note, or several.
    pub fn take_copy_note(&self) -> bool {
        self.may_be_copied.swap(false, Ordering::SeqCst)
    }

    /// Allows one more write of a segment, also of one that failed (TI12).
    pub fn retry(&self) {
        self.set.read().segments().for_each(|(_, state)| state.is_bad.store(false, Ordering::SeqCst));
        self.failures.allow_one();
    }

    /// Returns the rules by which pages move.
    pub fn policy(&self) -> TierPolicy {
        TierPolicy::of(self.policy.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Sets the rules by which pages move, from now on.
    pub fn set_policy(&self, policy: TierPolicy) {
        self.policy.store(policy as u32, Ordering::Relaxed);
    }

    fn write_and_flush(&self, segment: SegmentNo, bytes: &[u8]) -> Result<()> {
        let set = self.set();
        let member = set.member_of(segment).ok_or(Error::PastEnd)?;
        let at = member.offset(segment);
        let disk = member.disk()?;
        set.state(segment).is_untrimmed.store(true, Ordering::SeqCst);
        disk.write(at, bytes, Access::Cached).map_err(|error| ssd_error(member, at, &error))?;
        planted!("fs: unflushed segment" => return Ok(()));
        disk.flush().map_err(|error| ssd_error(member, at, &error))
    }

    /// Reads those of `pages` that are not kept, once none of them is being read ahead. The caller has no lock (TI7).
    pub fn fetch_missing(&self, pages: &[AwayPage]) {
        self.fetched.wait_for_ahead(pages);
        let is_missing = |page: &&AwayPage| !matches!(self.fetched(**page), Ok(Some(_)));
        let missing: Vec<AwayPage> = pages.iter().filter(is_missing).copied().collect();
        self.fetch(&missing);
    }

    /// Reads `pages` from their SSDs, so that [`SlotStore::fetched`] has them. The caller has no lock (TI7).
    pub fn fetch(&self, pages: &[AwayPage]) {
        self.read_pages(pages, |page, fetched| self.fetched.add(page, fetched));
    }

    /// Reads `pages` before they are asked for. Failures are forgotten: a reader meets its own (TI23).
    pub fn fetch_ahead(&self, pages: &[AwayPage]) {
        self.read_pages(pages, |page, fetched| {
            if fetched.found.is_ok() || planted!("fs: failed read-ahead is kept") {
                self.fetched.add(page, fetched);
            }
        });
    }

    fn read_pages(&self, pages: &[AwayPage], keep: impl Fn(AwayPage, FetchedPage)) {
        let mut pages = pages.to_vec();
        pages.sort_unstable();
        pages.dedup();
        for run in
            pages.chunk_by(|one, next| one.slot.0 + 1 == next.slot.0 && one.slot.segment() == next.slot.segment())
        {
            let sequence = self.sequence_of(run[0].slot.segment());
            let read = self.read_run(run[0].slot, run.len());
            for (index, page) in run.iter().enumerate() {
                let found = match &read {
                    Ok(bytes) => {
                        let bytes = &bytes[index * PAGE as usize..][..PAGE as usize];
                        let is_good = page.has(bytes) || planted!("fs: unchecked slot");
                        if is_good { Ok(bytes.into()) } else { Err(self.damage(page.slot).to_string()) }
                    }
                    Err(why) => Err(why.to_string()),
                };
                keep(*page, FetchedPage { sequence, found });
            }
        }
    }

    fn read_run(&self, first: Slot, count: usize) -> Result<Vec<u8>> {
        let set = self.set();
        let member = set.member_of(first.segment()).ok_or_else(|| self.damage(first))?;
        if set.state(first.segment()).is_overwritten() {
            let why = "was overwritten by a later life of this pool, which was restored from an image since";
            return Err(Error::Ssd(format!("{}: segment {} {why}", member.ssd.address, first.segment().0)));
        }
        let at = member.offset(first.segment()) + first.block() * PAGE;
        let mut bytes = vec![0; count * PAGE as usize];
        member.disk()?.read(at, &mut bytes).map_err(|error| ssd_error(member, at, &error))?;
        Ok(bytes)
    }

    fn damage(&self, slot: Slot) -> Error {
        let set = self.set();
        let address = set.member_of(slot.segment()).map_or("an SSD that is not there", |member| &member.ssd.address);
        Error::Ssd(format!("{address}: block {} of segment {} is damaged", slot.block(), slot.segment().0))
    }

    /// Returns the bytes of `page` if they were fetched, or `None` if they were not.
    ///
    /// # Errors
    /// [`Error::Ssd`] if they could not be read, or have another check. They are read again the next time.
    pub fn fetched(&self, page: AwayPage) -> Result<Option<Arc<[u8]>>> {
        match self.fetched.get(page, self.sequence_of(page.slot.segment())) {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(why)) => Err(Error::Ssd(why)),
        }
    }

    /// Counts a slot that a word names since a committed change, or that no word names since then.
    pub fn note_named(&self, slot: Slot, is_named: bool) {
        let set = self.set.read();
        let named = &set.state(slot.segment()).named;
        if is_named {
            named.fetch_add(1, Ordering::SeqCst);
            return;
        }
        named.fetch_sub(1, Ordering::SeqCst);
        // What failed may be possible now (TI12).
        self.failures.forget();
    }

    /// Returns true if the page at `place` can be clean. Pages that the pool gained since it was opened cannot.
    pub fn is_tracked(&self, place: u64) -> bool {
        index(place) < self.shadows.len()
    }

    /// Returns how many pages the SSDs have room for, and how many more: a clean page can leave the pool, and its slot is
    /// taken already. The room of two segments is for cleaning, and the pages of an SSD that leaves need room on the
    /// others. There is no more if nothing can be written.
    pub fn room(&self) -> (u64, u64) {
        let set = self.set.read();
        let more = |sum: u64, (_, state): (SegmentNo, &SegmentState)| sum + state.room();
        let (all, more) = (set.segments().count() as u64 * SEGMENT_PAGES, set.segments().fold(0, more));
        let leaving = set.members().iter().filter(|member| member.ssd.state == SsdState::Leaving);
        let moves: u64 = leaving.flat_map(|member| set.states_of(member)).map(SegmentState::named).sum();
        let more = more.saturating_sub(moves);
        let is_full = self.failures.why().is_some() && !planted!("fs: room on a dead SSD");
        let [all, more] = [all, more].map(|pages| pages.saturating_sub(2 * SEGMENT_PAGES));
        (all, if is_full { 0 } else { more })
    }

    /// Returns how many slots words name: the pages that are away.
    pub fn named(&self) -> u64 {
        let set = self.set.read();
        set.members().iter().flat_map(|member| set.states_of(member)).map(SegmentState::named).sum()
    }

    /// Returns how many pages of the pool are clean, or were until they were stored to.
    pub fn clean_pages(&self) -> u64 {
        self.shadowed.load(Ordering::Relaxed)
    }

    /// Returns true if `segment` is free.
    pub fn is_free(&self, segment: SegmentNo) -> bool {
        self.set.read().state(segment).is_free()
    }

    /// Returns segments to be cleaned, whose named slots together are `most` at most, and one more segment from which the
    /// rest is filled up: the sparsest, or under the paper's policy those that were written first. None of them is free,
    /// being written, or held by a backup, which keeps it from becoming free. There are none if cleaning all segments gains none.
    pub fn sparse(&self, most: u64) -> Vec<SegmentNo> {
        let order = |state: &SegmentState| match self.policy() {
            TierPolicy::Ferrite => state.used(),
            TierPolicy::Paper => state.sequence.load(Ordering::SeqCst),
        };
        let is_set = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let is_kept = |state: &SegmentState| is_set(&state.is_busy) || is_set(&state.is_held) || state.is_overwritten();
        let may_be = |state: &SegmentState| (1..SEGMENT_PAGES).contains(&state.used()) && !is_kept(state);
        let set = self.set.read();
        let mut sparse: Vec<(u64, u64, SegmentNo)> = set
            .segments()
            .filter(|(_, state)| may_be(state))
            .map(|(segment, state)| (order(state), state.named(), segment))
            .collect();
        sparse.sort_unstable();
        if sparse.iter().map(|(_, named, _)| SEGMENT_PAGES - named).sum::<u64>() < SEGMENT_PAGES {
            return Vec::new();
        }
        let mut sum = 0;
        let begins = |(_, named, _): &(u64, u64, SegmentNo)| {
            let begins = sum < most;
            sum += named;
            begins
        };
        sparse.into_iter().take_while(begins).map(|(_, _, segment)| segment).collect()
    }

    /// Returns true if segments should be cleaned before one is needed: few are free, and the others are sparse
    /// (nvm-storage-hierarchy.txt 3.2.4).
    pub fn wants_cleaning(&self) -> bool {
        let (all, free) = self.segments();
        let room = (all - free) * SEGMENT_PAGES;
        free < all / FREE_SEGMENTS_SHARE && (self.named() + self.clean_pages()) * 10 < room * 9
    }

    /// Returns which blocks of `segment` words name, as bits.
    pub fn named_in(&self, memory: &dyn Memory, segment: SegmentNo) -> [u64; 2] {
        self.set.read().table.named_words(segment).map(|at| memory.load_word(at))
    }

    /// Returns true if a word names `slot`.
    pub fn is_named(&self, memory: &dyn Memory, slot: Slot) -> bool {
        let (at, mask) = self.set.read().table.named_bit(slot);
        memory.load_word(at) & mask != 0
    }

    /// Reads `segment`, its summary and all of its blocks.
    ///
    /// # Errors
    /// The errors of the SSD; [`Error::Ssd`] if the summary is not of the last write of the segment.
    pub fn read_segment(&self, segment: SegmentNo) -> Result<(SegmentSummary, Vec<u8>)> {
        let first = segment.slot_of_summary();
        let bytes = self.read_run(first, SEGMENT_BLOCKS as usize)?;
        let block = bytes.first_chunk().expect("it has blocks");
        let summary = SegmentSummary::decode(block, &self.salt);
        let is_last =
            |summary: &SegmentSummary| summary.segment == segment && summary.sequence == self.sequence_of(segment);
        Ok((summary.filter(is_last).ok_or_else(|| self.damage(first))?, bytes))
    }

    /// Clears the mark of the page at `place`. Writers are kept out (TI4).
    pub fn clear_stored(&self, place: u64) {
        if self.is_tracked(place) {
            self.shared_state.stored(place / PAGE).store(0, Ordering::SeqCst);
        }
    }

    /// Clears the mark of stores of the dirty page at `place`. Returns true if it was set. The page has no shadow, and gets
    /// none from another thread now (TI4).
    pub fn take_stored(&self, place: u64) -> bool {
        self.is_tracked(place) && self.shared_state.stored(place / PAGE).swap(0, Ordering::SeqCst) != 0
    }

    /// Clears the mark of reads of the page at `place`. Returns true if it was set.
    pub fn take_touched(&self, place: u64) -> bool {
        self.is_tracked(place) && self.shared_state.touched(place / PAGE).swap(0, Ordering::Relaxed) != 0
    }
}

fn index(place: u64) -> usize {
    (place / PAGE) as usize
}

fn away_of(word: u64) -> Option<AwayPage> {
    match IndexWord(word).named() {
        NamedBy::Away(page) => Some(page),
        _ => None,
    }
}

pub(crate) fn ssd_error(member: &TierMember, at: u64, error: &ferrite_memory::Error) -> Error {
    Error::Ssd(format!("{} at byte {at}: {error}", member.ssd.address))
}
