//! A log as it lies: what opening finds of it, and what a check looks at, which has nothing in hand.

use std::fmt;

use ferrite_memory::Memory;

use super::TagLog;
use super::log_head::{LogLayout, LogPosition, SESSION, salt};
use super::log_ring::LogRing;
use crate::checked_word::NUMBER_MAX;
use crate::extent::{Role, Stream};
use crate::tag::Tag;
use crate::{Error, Pool, Result};

/// A log as it lies. Nobody stores into it meanwhile.
pub struct LogView<'a> {
    memory: &'a dyn Memory,
    ring: LogRing,
    head: u64,
    tail: u64,
    /// Of the last record; 0 where there is none.
    session: u64,
}

/// A record that stands behind the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrandedRecord {
    /// Where.
    pub position: LogPosition,
    /// What was appended.
    pub payload: Vec<u8>,
    /// Whether something before it is of a later session: it was left behind by a crash, and says nothing (W4).
    pub is_old: bool,
}

impl fmt::Debug for LogView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("head", &self.head).field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl TagLog {
    /// What opening found of it; before anything is appended.
    pub fn view(&self) -> LogView<'_> {
        let stream = Stream::new(&self.tag.extents, Role::DATA);
        let ring = LogRing::new(stream, self.tag.size, self.ring.salt());
        let state = self.state.lock();
        LogView { memory: self.holding.memory(), ring, head: state.head, tail: state.tail, session: state.last }
    }
}

impl<'a> LogView<'a> {
    /// The log in the DATA and MAP streams of `tag`. Reads only.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where its layout or its head is damaged.
    pub fn of(pool: &'a Pool, tag: &Tag) -> Result<Self> {
        let (memory, uuid) = (pool.memory(), pool.superblock().uuid);
        let LogLayout { stream, head, .. } = LogLayout::read(memory, &uuid, tag)?;
        let ring = LogRing::new(stream, tag.size, salt(&uuid, tag.generation));
        Ok(Self { memory, ring, head, tail: head, session: 0 }.from(LogPosition(head)))
    }

    /// The same log as if it began at `position`.
    #[must_use]
    pub fn from(mut self, LogPosition(head): LogPosition) -> Self {
        // What asks may have it from a medium that holds anything.
        self.head = head.min(NUMBER_MAX);
        (self.tail, self.session) = self.ring.find_end(self.memory, self.head);
        self
    }

    /// Where the oldest record is.
    pub fn head(&self) -> LogPosition {
        LogPosition(self.head)
    }

    /// Where the log ends (W1).
    pub fn end(&self) -> LogPosition {
        LogPosition(self.tail)
    }

    /// The pool's byte where `position` lies.
    pub fn place(&self, position: LogPosition) -> u64 {
        self.ring.place(position.0)
    }

    /// The position behind a record at `position` of so many bytes.
    pub fn behind(&self, position: LogPosition, payload_bytes: usize) -> LogPosition {
        LogPosition(position.0 + LogRing::lines_for(SESSION + payload_bytes))
    }

    /// The records that are in the log, in order.
    pub fn records(&self) -> impl Iterator<Item = Result<(LogPosition, Vec<u8>)>> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let at = Some(next).filter(|at| *at < self.tail)?;
            let Some((record, _)) = self.ring.read(self.memory, at, self.tail - at) else {
                next = self.tail;
                let what = format!("the record at position {at} of a log");
                return Some(Err(Error::corrupt(what, self.ring.place(at))));
            };
            next = at + LogRing::lines_for(record.payload.len());
            Some(Ok((LogPosition(at), record.payload[SESSION..].to_vec())))
        })
    }

    /// The records that stand behind its end, in order. Where each append is a fence of its own, one that is not `old` tells
    /// that what stood before it was damaged; among those that share a fence a crash may have lost that.
    pub fn stranded(&self) -> impl Iterator<Item = StrandedRecord> {
        let (mut next, mut session, last) = (self.tail, self.session, self.head + self.ring.lines());
        std::iter::from_fn(move || {
            let read = |at| Some((at, self.ring.read(self.memory, at, last - at)?));
            let (at, (record, of)) = self.ring.starts(self.memory, next..last).find_map(read)?;
            next = at + LogRing::lines_for(record.payload.len());
            let is_old = of < session;
            session = session.max(of);
            Some(StrandedRecord { position: LogPosition(at), payload: record.payload[SESSION..].to_vec(), is_old })
        })
    }
}
