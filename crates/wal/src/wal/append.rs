//! Appending: reserve a place, copy, finish; make room where there is none.

use std::sync::atomic::Ordering;

use ferrite_memory::Scheme;
use ferrite_pool::{LogPosition, TagLog};

use super::{Durability, Wal};
use crate::drain::Step;
use crate::order::Refusal;
use crate::{Error, Result};

impl Wal {
    /// Appends a record of any bytes, durable as asked for. Where the ring is full, this thread drains first; where
    /// that fails the record is not appended, and nothing is lost ([`Error::Stuck`]).
    ///
    /// # Errors
    /// [`Error::Limit`] for more than the ring ever has room for, and [`Error::Stuck`]: it is not appended. Else as
    /// [`Wal`] says.
    pub fn append(&self, payload: &[u8], durability: Durability) -> Result<LogPosition> {
        let start = self.append_group(&[payload], durability)?;
        Ok(LogPosition::from_number(start))
    }

    /// Appends records that share one fence and lie one behind the other: all of them, or none. After a crash there may
    /// be the first few.
    ///
    /// # Errors
    /// As [`Wal::append`]; [`Error::Limit`] for no payloads, too.
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
        let place = Place { wal: self, start: self.reserve(lines)? };
        let how = if strict { Scheme::Nt } else { Scheme::Writeback };
        let mut at = place.start;
        for payload in payloads {
            self.log.stage(LogPosition::from_number(at), self.session, payload, how);
            at += TagLog::lines_for(payload.len());
        }
        #[cfg(test)]
        let strict = strict && !super::tests::is_planted(super::tests::Bug::NoFence);
        if strict {
            // By the thread that copied, before anybody hears of it; no other's fence would do.
            memory.fence();
        }
        let start = place.finish(at, strict && self.fence_is_durable);
        if strict {
            self.settle(at)?;
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

    /// A place of so many lines.
    #[inline]
    pub(super) fn reserve(&self, lines: u64) -> Result<u64> {
        self.order.reserve(lines, TagLog::POSITION_MAX).or_else(|refusal| self.reserve_after(refusal, lines))
    }

    #[cold]
    fn reserve_after(&self, refusal: Refusal, lines: u64) -> Result<u64> {
        let mut refused = Err(refusal);
        loop {
            match refused {
                Ok(start) => return Ok(start),
                Err(Refusal::Full { .. }) => self.make_room(lines)?,
                Err(Refusal::Behind) => self.settle_some()?,
                Err(Refusal::Closed) => self.wait_for_thaw(),
                Err(Refusal::Exhausted) => {
                    return Err(Error::Limit(format!("log {:?} has no position left: make a new one", self.name())));
                }
            }
            refused = self.order.reserve(lines, TagLog::POSITION_MAX);
        }
    }

    /// Drains a step, unless another thread has made room meanwhile.
    fn make_room(&self, lines: u64) -> Result<()> {
        let mut drain = self.drain.lock();
        if self.log.lines() - (self.order.tail() - self.order.head()) >= lines {
            return Ok(());
        }
        match drain.step(self) {
            Ok(Step::Moved) => Ok(()),
            // What is in the way is being copied by another thread.
            Ok(Step::Idle) => self.pause(),
            Err(why) => Err(Error::Stuck { name: self.name().into(), why: Box::new(why) }),
        }
    }
}

/// A place that is being filled. Dropped unfinished, by a panic, the log is broken: others would wait for ever.
pub(super) struct Place<'wal> {
    pub wal: &'wal Wal,
    pub start: u64,
}

impl Place<'_> {
    fn finish(self, end: u64, settled: bool) -> u64 {
        self.wal.order.finish(self.start, end, settled);
        let start = self.start;
        std::mem::forget(self);
        start
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.wal.broken.store(true, Ordering::Release);
    }
}
