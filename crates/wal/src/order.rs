//! The order of records that many writers append without a lock between them: reserve, copy, finish.
//!
//! ```text
//!   head      durable         tail      positions, in lines
//!   |  to read |  done  | copying | done |  free ...
//!               ^ marks: done[start mod marks] = end << 1 | persisted
//! ```
//!
//! - WO1. A place is given to one writer, and only while all of it is free: not before the head has passed the record
//!   that lay there.
//! - WO2. The durable end passes a record only after its writer finished it and it, like all records before it, was
//!   persisted: a reader up to there meets no hole and no torn record.
//! - WO3. A mark is reused only after the durable end has passed its record, so no reader trusts a stale mark; a reader
//!   that finds the mark of a later record sees that the durable end has passed.
//! - WO4. After a close no place is reserved; places that were reserved before are still finished.
//!
//! Every wait here is for a copy that another thread has begun, or for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// An atomic 64-bit word, so that the same code runs under a model checker.
pub trait AtomicWord: Send + Sync {
    /// Returns a word with this value.
    fn new(value: u64) -> Self;
    /// Loads the value; memory that was written before its store is visible.
    fn load(&self) -> u64;
    /// Stores the value after all earlier writes.
    fn store(&self, value: u64);
    /// Stores `new` if the value is `old`. Returns true if it was stored.
    fn replace(&self, old: u64, new: u64) -> bool;
    /// Raises the value to `value` if that is greater.
    fn raise(&self, value: u64);
}

impl AtomicWord for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        self.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }
}

/// A word on a cache line of its own: writes to one word do not slow readers of another.
#[derive(Debug)]
#[repr(align(128))]
struct PaddedWord<W>(W);

/// The bit of the tail that is set while no place is reserved.
const CLOSED: u64 = 1 << 63;
/// The most marks, a power of two; fewer if the ring is smaller. At most this many lines may be reserved beyond the
/// durable end.
const WINDOW: u64 = 1 << 16;

/// The order of records: see the module.
#[derive(Debug)]
pub struct RecordOrder<W> {
    tail: PaddedWord<W>,
    durable: PaddedWord<W>,
    head: PaddedWord<W>,
    done: Box<[W]>,
    lines: u64,
}

/// The reason why no place was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveRefusal {
    /// Too few lines are free.
    Full {
        /// The number of free lines.
        free: u64,
    },
    /// Too many records are not persisted yet: persist, then retry.
    Behind,
    /// No place is reserved now.
    Closed,
    /// The log has reached its last position, which no log reaches in practice.
    Exhausted,
}

/// The end of the finished records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedReach {
    /// Every record before this is finished.
    pub end: u64,
    /// True if their writers persisted all of them.
    pub persisted: bool,
}

/// The initial positions of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingStart {
    /// The position of its oldest record.
    pub head: u64,
    /// The end of its records, all durable.
    pub end: u64,
    /// The number of lines of the ring.
    pub lines: u64,
}

impl<W: AtomicWord> RecordOrder<W> {
    /// Returns the order of a ring at `start`.
    pub fn new(start: RingStart) -> Self {
        Self::with_window(start, WINDOW)
    }

    /// Returns the order of a ring at `start`, with at most `window` marks, a power of two.
    pub(crate) fn with_window(start: RingStart, window: u64) -> Self {
        let marks = start.lines.next_power_of_two().min(window);
        let word = |value| PaddedWord(W::new(value));
        Self {
            tail: word(start.end),
            durable: word(start.end),
            head: word(start.head),
            done: (0..marks).map(|_| W::new(0)).collect(),
            lines: start.lines,
        }
    }

    /// Reserves `lines` lines and returns the first position. Positions end before `position_max`.
    pub fn reserve(&self, lines: u64, position_max: u64) -> Result<u64, ReserveRefusal> {
        loop {
            let tail = self.tail.0.load();
            if tail & CLOSED != 0 {
                return Err(ReserveRefusal::Closed);
            }
            // A head or durable end that is older than the newest refuses more, never less.
            let free = self.lines - tail.saturating_sub(self.head.0.load());
            if lines > free {
                return Err(ReserveRefusal::Full { free });
            }
            if tail.saturating_sub(self.durable.0.load()) >= self.done.len() as u64 {
                return Err(ReserveRefusal::Behind);
            }
            if tail + lines >= position_max {
                return Err(ReserveRefusal::Exhausted);
            }
            if self.tail.0.replace(tail, tail + lines) {
                return Ok(tail);
            }
        }
    }

    /// Marks the record from `start` to `end` as copied; with `persisted` it is durable as soon as all records before
    /// it are.
    pub fn finish(&self, start: u64, end: u64, persisted: bool) {
        self.mark(start).store(end << 1 | u64::from(persisted));
    }

    fn mark(&self, start: u64) -> &W {
        &self.done[start as usize & (self.done.len() - 1)]
    }

    /// Returns the end of the finished records, from the durable end on.
    #[inline]
    pub fn reach(&self) -> FinishedReach {
        let mut reach = FinishedReach { end: self.durable.0.load(), persisted: true };
        loop {
            let mark = self.mark(reach.end).load();
            let end = mark >> 1;
            // A mark of an earlier record ends here at the latest.
            if end <= reach.end {
                return reach;
            }
            // A mark of a later record is here only after the durable end has passed this place (WO3).
            let durable = self.durable.0.load();
            reach = if durable > reach.end {
                FinishedReach { end: durable, persisted: true }
            } else {
                FinishedReach { end, persisted: reach.persisted && mark & 1 == 1 }
            };
        }
    }

    /// Moves the durable end to `end`: all records before it are finished and persisted.
    pub fn set_durable(&self, end: u64) {
        self.durable.0.raise(end);
    }

    /// Moves the head: the lines before it may be overwritten.
    pub fn cut(&self, head: u64) {
        self.head.0.raise(head);
    }

    /// Returns the position of the oldest record.
    pub fn head(&self) -> u64 {
        self.head.0.load()
    }

    /// Returns the durable end.
    pub fn durable(&self) -> u64 {
        self.durable.0.load()
    }

    /// Returns the position of the next record.
    pub fn tail(&self) -> u64 {
        self.tail.0.load() & !CLOSED
    }

    /// Stops reservations until [`RecordOrder::open`] (WO4).
    pub fn close(&self) {
        self.turn(|tail| tail | CLOSED);
    }

    /// Allows reservations again.
    pub fn open(&self) {
        self.turn(|tail| tail & !CLOSED);
    }

    fn turn(&self, to: impl Fn(u64) -> u64) {
        loop {
            let tail = self.tail.0.load();
            if self.tail.0.replace(tail, to(tail)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
