//! The order of records that many writers append without a lock between them: reserve, copy, finish.
//!
//! ```text
//!   head      durable                  tail            positions, in lines
//!   |  to read |  done  | copying | done |  free ...
//!              ^ marks: done[start mod marks] = end << 1 | settled
//! ```
//!
//! - WO1. A place is given to one writer, and only while all of it is free: not before the head has passed what lay there.
//! - WO2. The durable end passes a record only after its writer finished it and it, like all before it, was settled: a
//!   reader up to there meets no hole and no torn record.
//! - WO3. A mark is reused only after the durable end has passed the record it was for, so no stale one is believed; and
//!   who finds one of a later record sees that the end has passed.
//! - WO4. Once closed no place is given out; what was given out before is still finished.
//!
//! Every wait here is for a copy that another thread has begun, or for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// An atomic 64-bit word, so that the same code runs under a model checker.
pub trait Word: Send + Sync {
    /// A word of this value.
    fn new(value: u64) -> Self;
    /// Reads it, and sees what was written before it was stored.
    fn load(&self) -> u64;
    /// Stores it after what was written before.
    fn store(&self, value: u64);
    /// Stores `new` if it is `old`; whether it was.
    fn replace(&self, old: u64, new: u64) -> bool;
    /// Makes it `value` if that is more.
    fn raise(&self, value: u64);
}

impl Word for AtomicU64 {
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

/// A word on a line of its own: what one thread writes does not slow who reads another.
#[derive(Debug)]
#[repr(align(128))]
struct Alone<W>(W);

/// Set in the tail while no place is given out.
const CLOSED: u64 = 1 << 63;
/// Marks there are, a power of two, unless the ring is smaller: so many lines may be reserved beyond the durable end.
const WINDOW: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct Order<W> {
    tail: Alone<W>,
    durable: Alone<W>,
    head: Alone<W>,
    done: Box<[W]>,
    lines: u64,
}

/// Why no place was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// So many lines are free.
    Full {
        /// Lines.
        free: u64,
    },
    /// Too much has not been settled yet: settle, then try again.
    Behind,
    /// Nothing is given out now.
    Closed,
    /// The log has come to its last position, which no log lives to see.
    Exhausted,
}

/// How far the records are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Every record before this is finished.
    pub end: u64,
    /// And they were all settled by their writers.
    pub settled: bool,
}

/// Where a ring stands at first.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Its oldest record.
    pub head: u64,
    /// The end of its records, all durable.
    pub end: u64,
    /// The lines that it has.
    pub lines: u64,
}

impl<W: Word> Order<W> {
    /// The order of a ring that stands at `start`.
    pub fn new(start: Start) -> Self {
        Self::with_window(start, WINDOW)
    }

    /// As [`Order::new`], with so many marks at most, a power of two.
    pub(crate) fn with_window(start: Start, window: u64) -> Self {
        let marks = start.lines.next_power_of_two().min(window);
        let word = |value| Alone(W::new(value));
        Self {
            tail: word(start.end),
            durable: word(start.end),
            head: word(start.head),
            done: (0..marks).map(|_| W::new(0)).collect(),
            lines: start.lines,
        }
    }

    /// Gives out `lines` lines; where they start.
    pub fn reserve(&self, lines: u64, position_max: u64) -> Result<u64, Refusal> {
        loop {
            let tail = self.tail.0.load();
            if tail & CLOSED != 0 {
                return Err(Refusal::Closed);
            }
            // An older head or durable end than the newest only refuses more.
            let free = self.lines - tail.saturating_sub(self.head.0.load());
            if lines > free {
                return Err(Refusal::Full { free });
            }
            if tail.saturating_sub(self.durable.0.load()) >= self.done.len() as u64 {
                return Err(Refusal::Behind);
            }
            if tail + lines >= position_max {
                return Err(Refusal::Exhausted);
            }
            if self.tail.0.replace(tail, tail + lines) {
                return Ok(tail);
            }
        }
    }

    /// Says that the record from `start` to `end` is copied and, where `settled`, durable as soon as all before it are.
    pub fn finish(&self, start: u64, end: u64, settled: bool) {
        self.mark(start).store(end << 1 | u64::from(settled));
    }

    fn mark(&self, start: u64) -> &W {
        &self.done[start as usize & (self.done.len() - 1)]
    }

    /// How far the records are finished, from the durable end on.
    #[inline]
    pub fn reach(&self) -> Reach {
        let mut reach = Reach { end: self.durable.0.load(), settled: true };
        loop {
            let mark = self.mark(reach.end).load();
            let end = mark >> 1;
            // A mark of an earlier record ends here at the latest.
            if end <= reach.end {
                return reach;
            }
            // One of a later record is there only after the durable end has passed this place (WO3).
            let durable = self.durable.0.load();
            reach = if durable > reach.end {
                Reach { end: durable, settled: true }
            } else {
                Reach { end, settled: reach.settled && mark & 1 == 1 }
            };
        }
    }

    /// Moves the durable end to `end`: all before it are finished and settled.
    pub fn settled(&self, end: u64) {
        self.durable.0.raise(end);
    }

    /// Moves the head: what lies before it may be overwritten.
    pub fn cut(&self, head: u64) {
        self.head.0.raise(head);
    }

    /// The oldest record's position.
    pub fn head(&self) -> u64 {
        self.head.0.load()
    }

    /// The durable end.
    pub fn durable(&self) -> u64 {
        self.durable.0.load()
    }

    /// Where the next place will be.
    pub fn tail(&self) -> u64 {
        self.tail.0.load() & !CLOSED
    }

    /// Gives out no places until [`Order::open`] (WO4).
    pub fn close(&self) {
        self.turn(|tail| tail | CLOSED);
    }

    /// Gives out places again.
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
