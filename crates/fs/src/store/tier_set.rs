//! The SSDs of a tier at one time, and the state of their segments in DRAM.
//!
//! A set does not change: an SSD that joins, grows or leaves makes a new one, which shares the segments' states. So a
//! reader of an SSD needs no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ferrite_disk::{Disk, StatsDisk};
use ferrite_memory::{Memory, planted};

use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES, SEGMENTS_AT, SegmentNo};
use crate::format::slot_table::{OVERWRITTEN, SlotTable, SsdState, TierSsd};
use crate::{Error, Result};

/// Segments whose states are allocated together.
const STATES: u64 = 1024;

/// An SSD of a tier.
pub(crate) struct TierMember {
    /// The SSD as the table lists it.
    pub ssd: TierSsd,
    /// `None` if it was not found, and the file system is only read.
    pub disk: Option<Arc<StatsDisk<Arc<dyn Disk>>>>,
}

impl TierMember {
    /// Returns the open SSD.
    ///
    /// # Errors
    /// [`Error::Ssd`] if it was not found.
    pub fn disk(&self) -> Result<&dyn Disk> {
        match &self.disk {
            Some(disk) => Ok(&**disk),
            None => Err(Error::Ssd(format!("the SSD {} is not there", self.ssd.address))),
        }
    }

    /// Returns true if the SSD has `segment`.
    pub fn has(&self, segment: SegmentNo) -> bool {
        self.numbers().contains(&segment.0)
    }

    /// Returns the numbers of its segments.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.ssd.first.0..self.ssd.first.0 + self.ssd.segments
    }

    /// Returns the offset of `segment` on the SSD.
    pub fn offset(&self, segment: SegmentNo) -> u64 {
        SEGMENTS_AT + (segment.0 - self.ssd.first.0) * SEGMENT_BYTES
    }

    /// Returns true if the SSD is there, and trims.
    pub fn is_trimming(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.geometry().trim)
    }

    /// Returns true if segments of it may be written: it is there, and is not leaving.
    pub fn is_writable(&self) -> bool {
        self.disk.is_some() && self.ssd.state == SsdState::InUse
    }
}

/// A segment in DRAM.
#[derive(Debug, Default)]
pub(crate) struct SegmentState {
    /// Slots that words name.
    pub named: AtomicU32,
    /// Slots that are shadows.
    pub shadows: AtomicU32,
    /// It is being written or trimmed, or was written and its shadows are not noted yet.
    pub is_busy: AtomicBool,
    /// It could not be written: it is not used until the file system is opened again.
    pub is_bad: AtomicBool,
    /// A backup copies what words named of it.
    pub is_held: AtomicBool,
    /// It was written since it was trimmed.
    pub is_untrimmed: AtomicBool,
    /// Of what was written to it last.
    pub sequence: AtomicU64,
}

impl SegmentState {
    /// Returns true if nothing needs the segment, and it can be written.
    pub fn is_free(&self) -> bool {
        let is_kept = |kept: &AtomicBool| kept.load(Ordering::SeqCst);
        let is_held = is_kept(&self.is_held) && !planted!("fs: held segment is free");
        self.used() == 0 && !is_kept(&self.is_busy) && !is_kept(&self.is_bad) && !is_held
    }

    /// Returns true if another life of the pool overwrote what words name.
    pub fn is_overwritten(&self) -> bool {
        self.sequence.load(Ordering::SeqCst) & OVERWRITTEN != 0
    }

    /// Returns how many slots words name.
    pub fn named(&self) -> u64 {
        self.named.load(Ordering::SeqCst).into()
    }

    /// Returns how many more pages the segment has room for, once cleaning has moved its pages.
    pub fn room(&self) -> u64 {
        let is_kept = self.is_bad.load(Ordering::SeqCst) || self.is_held.load(Ordering::SeqCst);
        let is_usable = !is_kept && (self.named() == 0 || !self.is_overwritten());
        if is_usable { SEGMENT_PAGES.saturating_sub(self.named()) } else { 0 }
    }

    /// Returns how many slots words or shadows name.
    pub fn used(&self) -> u64 {
        self.named() + u64::from(self.shadows.load(Ordering::SeqCst))
    }
}

/// The SSDs of a tier, and their segments.
#[derive(Clone)]
pub(crate) struct TierSet {
    /// The table in the pool.
    pub table: SlotTable,
    members: Vec<Arc<TierMember>>,
    states: Vec<Arc<[SegmentState]>>,
}

impl TierSet {
    /// Returns the set of `members` whose descriptors are in `table`.
    pub fn new(table: SlotTable, members: Vec<TierMember>) -> Self {
        Self { table: table.clone(), members: Vec::new(), states: Vec::new() }
            .with(table, members.into_iter().map(Arc::new).collect())
    }

    /// Returns the set of `members` whose descriptors are in `table`, with the states of this one.
    pub fn with(&self, table: SlotTable, members: Vec<Arc<TierMember>>) -> Self {
        let mut set = Self { table, members, states: self.states.clone() };
        while (set.states.len() as u64 * STATES) < set.end() {
            set.states.push((0..STATES).map(|_| SegmentState::default()).collect());
        }
        set
    }

    /// Forgets what is known of segments that no SSD has, whose numbers `ssd` gets.
    pub fn forget_states(&self, ssd: &TierSsd) {
        for number in ssd.first.0..(ssd.first.0 + ssd.segments).min(self.states.len() as u64 * STATES) {
            let state = self.state(SegmentNo(number));
            state.is_bad.store(false, Ordering::SeqCst);
            state.is_untrimmed.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the SSDs as the table lists them.
    pub fn listed(&self) -> Vec<TierSsd> {
        self.members.iter().map(|member| member.ssd.clone()).collect()
    }

    /// Returns the SSD with this address.
    ///
    /// # Errors
    /// [`Error::Refused`] if no SSD has it, with the addresses that there are.
    pub fn member_at(&self, address: &str) -> Result<&Arc<TierMember>> {
        self.members.iter().find(|member| member.ssd.address == address).ok_or_else(|| {
            let known: Vec<&str> = self.members.iter().map(|member| &*member.ssd.address).collect();
            Error::Refused(format!("{address} is none of the SSDs of the file system: {}", known.join(", ")))
        })
    }

    /// Reads the descriptors of all members from the pool.
    pub fn load(&self, memory: &dyn Memory) {
        for segment in self.members.iter().flat_map(|member| member.numbers()).map(SegmentNo) {
            let named = self.table.named_words(segment).map(|at| memory.load_word(at).count_ones());
            let (state, sequence) = (self.state(segment), memory.load_word(self.table.sequence(segment)));
            state.named.store(named[0] + named[1], Ordering::Relaxed);
            state.sequence.store(sequence, Ordering::Relaxed);
            state.is_untrimmed.store(sequence > 0, Ordering::Relaxed);
        }
    }

    /// Returns the greatest sequence of a segment.
    pub fn sequence_max(&self) -> u64 {
        let states = self.states.iter().flat_map(|states| states.iter());
        states.map(|state| state.sequence.load(Ordering::Relaxed) & !OVERWRITTEN).max().unwrap_or(0)
    }

    /// Returns the SSDs.
    pub fn members(&self) -> &[Arc<TierMember>] {
        &self.members
    }

    /// Returns the number behind the last segment.
    pub fn end(&self) -> u64 {
        self.members.iter().map(|member| member.numbers().end).max().unwrap_or(0)
    }

    /// Returns the state of `segment`, which an SSD has or had.
    pub fn state(&self, segment: SegmentNo) -> &SegmentState {
        &self.states[(segment.0 / STATES) as usize][(segment.0 % STATES) as usize]
    }

    /// Returns the SSD that has `segment`.
    pub fn member_of(&self, segment: SegmentNo) -> Option<&Arc<TierMember>> {
        self.members.iter().find(|member| member.has(segment))
    }

    /// Returns the segments of SSDs that do not leave.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentNo, &SegmentState)> {
        let stay = self.members.iter().filter(|member| member.ssd.state != SsdState::Leaving);
        stay.flat_map(|member| member.numbers()).map(|number| (SegmentNo(number), self.state(SegmentNo(number))))
    }

    /// Returns the states of all segments of `member`.
    pub fn states_of<'a>(&'a self, member: &TierMember) -> impl Iterator<Item = &'a SegmentState> + use<'a> {
        member.numbers().map(|number| self.state(SegmentNo(number)))
    }
}
