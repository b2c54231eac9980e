//! Appending: reserve a place, copy, finish; drain if no place is free.

use std::sync::atomic::Ordering;

use ferrite_memory::{Scheme, planted};
use ferrite_pool::{LogPosition, TagLog};

use super::{Durability, Wal};
use crate::drain::DrainStep;
use crate::order::ReserveRefusal;
use crate::{Error, Result};

impl Wal {
    /// Appends a record of any bytes, with this durability. If the ring is full, this thread drains first; if draining
    /// fails the record is not appended, and nothing is lost ([`Error::Stuck`]).
    ///
    /// # Errors
    /// [`Error::Limit`] for more bytes than the ring can hold, and [`Error::Stuck`]: the record is not appended. Also
    /// the errors that [`Wal`] lists.
    pub fn append(&self, payload: &[u8], durability: Durability) -> Result<LogPosition> {
        let start = self.append_group(&[payload], durability)?;
        Ok(LogPosition::from_number(start))
    }

    /// Appends adjacent records that share one fence: all of them, or none. After a crash the log may have the first
    /// few.
    ///
    /// # Errors
    /// The errors of [`Wal::append`]; [`Error::Limit`] also if there are no payloads.
    pub fn append_many(&self, payloads: &[&[u8]], durability: Durability) -> Result<Vec<LogPosition>> {
        let mut at = self.append_group(payloads, durability)?;
        let positions = payloads.iter().map(|payload| {
            let position = LogPosition::from_number(at);
            at += TagLog::lines_for(payload.len());
            position
        });
        Ok(positions.collect())
    }

    #[inline(always)]
    fn append_group(&self, payloads: &[&[u8]], durability: Durability) -> Result<u64> {
        let strict = durability == Durability::Strict;
        let lines = self.lines_for(payloads)?;
        self.holding.check_poison()?;
        let memory = self.holding.memory();
        let place = ReservedPlace { wal: self, start: self.reserve(lines)? };
        let how = if strict { Scheme::Nt } else { Scheme::Writeback };
        let mut at = place.start;
        for payload in payloads {
            self.log.stage(LogPosition::from_number(at), self.session, payload, how);
            at += TagLog::lines_for(payload.len());
        }
        let strict = strict && !planted!("wal: strict append does not fence");
        if strict {
            // The thread that copied fences before any other thread sees the record; no other thread's fence would do.
            memory.fence();
        }
        let start = place.finish(at, strict && self.fence_is_durable);
        if strict {
            self.persist_until(at)?;
        }
        Ok(start)
    }

    #[inline(always)]
    fn lines_for(&self, payloads: &[&[u8]]) -> Result<u64> {
        if let Some(long) = payloads.iter().find(|payload| payload.len() > TagLog::PAYLOAD_BYTES_MAX) {
            return Err(Error::Limit(format!(
                "a record of {} bytes exceeds {}",
                long.len(),
                TagLog::PAYLOAD_BYTES_MAX
            )));
        }
        let lines: u64 = payloads.iter().map(|payload| TagLog::lines_for(payload.len())).sum();
        if lines == 0 || lines > self.log.lines() {
            let (name, bytes) = (self.name(), self.capacity_bytes());
            return Err(Error::Limit(format!(
                "{} bytes do not fit log {name:?}, which holds {bytes} before it is drained: append less, or make it larger",
                lines * 64
            )));
        }
        Ok(lines)
    }

    /// Reserves a place of `lines` lines and returns its position.
    #[inline]
    pub(super) fn reserve(&self, lines: u64) -> Result<u64> {
        self.order.reserve(lines, TagLog::POSITION_MAX).or_else(|refusal| self.reserve_after(refusal, lines))
    }

    #[cold]
    fn reserve_after(&self, refusal: ReserveRefusal, lines: u64) -> Result<u64> {
        let mut refused = Err(refusal);
        loop {
            match refused {
                Ok(start) => return Ok(start),
                Err(ReserveRefusal::Full { .. }) => self.make_room(lines)?,
                Err(ReserveRefusal::Behind) => self.persist_some()?,
                Err(ReserveRefusal::Closed) => self.wait_for_thaw(),
                Err(ReserveRefusal::Exhausted) => {
                    return Err(Error::Limit(format!("log {:?} has no position left: make a new one", self.name())));
                }
            }
            refused = self.order.reserve(lines, TagLog::POSITION_MAX);
        }
    }

    /// Drains a step, unless another thread has made room.
    fn make_room(&self, lines: u64) -> Result<()> {
        let mut drain = self.drain.lock();
        if self.log.lines() - (self.order.tail() - self.order.head()) >= lines {
            return Ok(());
        }
        match drain.step(self) {
            Ok(DrainStep::Moved) => Ok(()),
            // Another thread is copying the record in the way.
            Ok(DrainStep::Idle) => self.pause(),
            Err(why) => Err(Error::Stuck { name: self.name().into(), why: Box::new(why) }),
        }
    }
}

/// A place that is being filled. If it is dropped unfinished, by a panic, the log is broken: other threads would wait
/// for ever.
pub(super) struct ReservedPlace<'wal> {
    pub wal: &'wal Wal,
    pub start: u64,
}

impl ReservedPlace<'_> {
    fn finish(self, end: u64, persisted: bool) -> u64 {
        self.wal.order.finish(self.start, end, persisted);
        let start = self.start;
        std::mem::forget(self);
        start
    }
}

impl Drop for ReservedPlace<'_> {
    fn drop(&mut self) {
        self.wal.broken.store(true, Ordering::Release);
    }
}
