//! Draining: the move of records from the ring to files, one step at a time.
//!
//! ```text
//!   write: lines written .. into the segment     sync: the segment     cut: the ring's head to `written`
//!   ^------------------------------------------------------------------------------'
//! ```
//!
//! - WD1. The head passes a record only after the file that holds it was synced: at every instant a record that was
//!   durable is in the ring, or in a synced file, whole.
//! - WD2. Only durable records are written to files: a file never holds a record that a crash removed from the ring.
//! - WD3. After any failure draining starts over at the head. A failed sync may have dropped earlier writes, and the
//!   next sync may succeed; the ring still has the records.
//! - WD4. A segment ends only at a cut, so each position is in the newest segment that starts at or before it.

use std::collections::BTreeSet;

use ferrite_memory::planted;
use ferrite_pool::{LogPosition, TagLog};

use crate::segment::{self, HEADER_BYTES, SegmentFolder};
use crate::wal::Wal;
use crate::{Error, Result};

/// Bytes written in one step.
const STEP_BYTES: usize = 256 << 10;
/// The most bytes written before a sync; a quarter of the ring, if that is less.
const BATCH_BYTES: u64 = 4 << 20;

/// The result of a step of draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    /// A part of the work was done; more may follow.
    Moved,
    /// Nothing was to do: every durable record is in a file.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainStage {
    Write,
    Sync,
    Cut,
}

/// The state of draining. One thread at a time holds it.
pub(crate) struct SegmentDrain {
    folder: Box<dyn SegmentFolder>,
    segments: Option<BTreeSet<u64>>,
    segment_bytes: u64,
    written: u64,
    next: DrainStage,
}

impl SegmentDrain {
    /// Sets the length in bytes after which the next file is begun.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    pub fn new(folder: Box<dyn SegmentFolder>, segment_bytes: u64, head: u64) -> Self {
        Self { folder, segments: None, segment_bytes, written: head, next: DrainStage::Write }
    }

    /// Does the next step (WD1).
    pub fn step(&mut self, wal: &Wal) -> Result<DrainStep> {
        let done = match self.next {
            DrainStage::Write => self.write(wal),
            DrainStage::Sync => self.persist_last(),
            DrainStage::Cut => self.cut(wal),
        };
        if done.is_err() {
            (self.written, self.next, self.segments) = (wal.head(), DrainStage::Write, None);
        }
        done
    }

    fn write(&mut self, wal: &Wal) -> Result<DrainStep> {
        let head = wal.head();
        self.written = self.written.max(head);
        let image = wal.image(self.written, STEP_BYTES)?;
        if image.is_empty() {
            if self.written == head {
                return Ok(DrainStep::Idle);
            }
            self.next = DrainStage::Sync;
            return self.step(wal);
        }
        let segment = self.segment(wal)?;
        let at = place(segment, self.written);
        let written = self.folder.write(segment, at, &image);
        written.map_err(|source| Error::target(self.doing("writing", segment), source))?;
        self.written += image.len() as u64 / 64;
        if (self.written - head) * 64 >= BATCH_BYTES.min(wal.capacity_bytes() / 4) {
            self.next = DrainStage::Sync;
        }
        Ok(DrainStep::Moved)
    }

    fn persist_last(&mut self) -> Result<DrainStep> {
        if planted!("wal: drain cuts before it syncs the segment") {
            self.next = DrainStage::Cut;
            return Ok(DrainStep::Moved);
        }
        let segment = self.last()?.expect("something was written");
        self.folder.persist_segment(segment).map_err(|source| Error::target(self.doing("syncing", segment), source))?;
        self.next = DrainStage::Cut;
        Ok(DrainStep::Moved)
    }

    fn cut(&mut self, wal: &Wal) -> Result<DrainStep> {
        // A truncation may have moved the head further.
        if self.written > wal.head() {
            wal.cut(self.written)?;
        }
        self.next = DrainStage::Write;
        Ok(DrainStep::Moved)
    }

    /// Returns the segment for `written`: a new one if the last is long enough and ends at the head (WD4).
    fn segment(&mut self, wal: &Wal) -> Result<u64> {
        let head = wal.head();
        let last = self.last()?;
        if let Some(segment) = last.filter(|last| *last > head) {
            let what = "it begins behind the log's head: was the pool restored?";
            return Err(Error::Foreign { name: wal.name().into(), segment, what });
        }
        match last {
            Some(last) if self.written > head || (last < head && place(last, head) < self.segment_bytes) => {
                self.check(wal, last, false)?;
                Ok(last)
            }
            _ => self.begin(wal, head, last == Some(head)),
        }
    }

    /// Begins a segment; one that exists was begun before a crash.
    fn begin(&mut self, wal: &Wal, segment: u64, is_there: bool) -> Result<u64> {
        if is_there {
            self.check(wal, segment, true)?;
        }
        let made = self.folder.write(segment, 0, &wal.header(segment));
        made.map_err(|source| Error::target(self.doing("making", segment), source))?;
        self.segments()?.insert(segment);
        Ok(segment)
    }

    fn check(&mut self, wal: &Wal, segment: u64, may_be_blank: bool) -> Result<()> {
        let mut found = [0; 64];
        let read = self.read(segment, 0, &mut found)?;
        match segment::fault(&found[..read], &wal.header(segment)) {
            Some(what) if !(may_be_blank && segment::is_blank(&found[..read])) => {
                Err(Error::Foreign { name: wal.name().into(), segment, what })
            }
            _ => Ok(()),
        }
    }

    fn segments(&mut self) -> Result<&mut BTreeSet<u64>> {
        if self.segments.is_none() {
            let listed = self.folder.list();
            let place = || format!("looking into {}", self.folder.location());
            self.segments = Some(listed.map_err(|source| Error::target(place(), source))?.into_iter().collect());
        }
        Ok(self.segments.as_mut().expect("just listed"))
    }

    fn last(&mut self) -> Result<Option<u64>> {
        Ok(self.segments()?.last().copied())
    }

    /// Returns the record at `position`, which is before the head, as it lies in its file. The record verifies.
    pub fn record(&mut self, wal: &Wal, position: u64) -> Result<Vec<u8>> {
        let segment = self.segments()?.range(..=position).next_back().copied();
        let Some(segment) = segment else {
            return Err(Error::Missing { name: wal.name().into(), position, place: self.folder.location() });
        };
        self.check(wal, segment, false)?;
        let at = place(segment, position);
        let damaged = || Error::Damaged { name: wal.name().into(), segment, at };
        let mut record = vec![0; 64];
        if self.read(segment, at, &mut record)? < 64 {
            return Err(damaged());
        }
        let position = LogPosition::from_number(position);
        let bytes = TagLog::record_bytes(position, &record).ok_or_else(damaged)?;
        // The buffer grows with the bytes that are read: a damaged length may announce any size.
        while record.len() < bytes {
            let (old, more) = (record.len(), (bytes - record.len()).min(STEP_BYTES));
            record.resize(old + more, 0);
            if self.read(segment, at + old as u64, &mut record[old..])? < more {
                return Err(damaged());
            }
        }
        let whole = TagLog::payload_of(wal.salt(), position, &record).is_some();
        if whole { Ok(record) } else { Err(damaged()) }
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> Result<usize> {
        self.folder.read(segment, at, into).map_err(|source| Error::target(self.doing("reading", segment), source))
    }

    /// Removes the segments that hold no record from `start` on.
    pub fn remove_before(&mut self, wal: &Wal, start: u64) -> Result<()> {
        let segments: Vec<u64> = self.segments()?.iter().copied().collect();
        for pair in segments.windows(2).filter(|pair| pair[1] <= start) {
            self.check(wal, pair[0], false)?;
            let removed = self.folder.remove(pair[0]);
            removed.map_err(|source| Error::io(self.doing("removing", pair[0]), source))?;
            self.segments()?.remove(&pair[0]);
        }
        Ok(())
    }

    fn doing(&self, what: &str, segment: u64) -> String {
        format!("{what} segment {segment} in {}", self.folder.location())
    }
}

fn place(segment: u64, position: u64) -> u64 {
    HEADER_BYTES + (position - segment) * 64
}
