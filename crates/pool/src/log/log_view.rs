//! A log as opening and checks read it, without holding its tag.

use std::fmt;

use ferrite_memory::Memory;

use super::TagLog;
use super::log_head::{LogLayout, LogPosition, SESSION, salt};
use super::log_ring::LogRing;
use crate::checked_word::NUMBER_MAX;
use crate::extent::{Role, Stream};
use crate::tag::Tag;
use crate::{Error, Pool, Result};

/// A log as it is stored. No process stores into it while the view exists.
pub struct LogView<'a> {
    memory: &'a dyn Memory,
    ring: LogRing,
    head: u64,
    tail: u64,
    /// The session of the last record, or 0 if the log is empty.
    session: u64,
}

/// A record behind the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrandedRecord {
    /// The position of the record.
    pub position: LogPosition,
    /// The caller's bytes.
    pub payload: Vec<u8>,
    /// True if an earlier record has a later session: a crash left this one behind, and it does not prove damage (W4).
    pub is_old: bool,
}

impl fmt::Debug for LogView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("head", &self.head).field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl TagLog {
    /// Returns the log as opening found it. Call this before the first append.
    pub fn view(&self) -> LogView<'_> {
        let stream = Stream::new(&self.tag.extents, Role::DATA);
        let ring = LogRing::new(stream, self.tag.size, self.ring.salt());
        let state = self.state.lock();
        LogView { memory: self.holding.memory(), ring, head: state.head, tail: state.tail, session: state.last }
    }
}

impl<'a> LogView<'a> {
    /// Returns the log in the DATA and MAP streams of `tag`. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the layout or the head is damaged.
    pub fn of(pool: &'a Pool, tag: &Tag) -> Result<Self> {
        let (memory, uuid) = (pool.memory(), pool.superblock().uuid);
        let LogLayout { stream, head, .. } = LogLayout::read(memory, &uuid, tag)?;
        let ring = LogRing::new(stream, tag.size, salt(&uuid, tag.generation));
        Ok(Self { memory, ring, head, tail: head, session: 0 }.from(LogPosition(head)))
    }

    /// Returns the same log as if it began at `position`.
    #[must_use]
    pub fn from(mut self, LogPosition(head): LogPosition) -> Self {
        // The position may come from a damaged medium.
        self.head = head.min(NUMBER_MAX);
        (self.tail, self.session) = self.ring.find_end(self.memory, self.head);
        self
    }

    /// Returns the position of the oldest record.
    pub fn head(&self) -> LogPosition {
        LogPosition(self.head)
    }

    /// Returns the end of the log (W1).
    pub fn end(&self) -> LogPosition {
        LogPosition(self.tail)
    }

    /// Returns the byte of the pool for `position`.
    pub fn place(&self, position: LogPosition) -> u64 {
        self.ring.place(position.0)
    }

    /// Returns the position behind a record at `position` with `payload_bytes` of payload.
    pub fn behind(&self, position: LogPosition, payload_bytes: usize) -> LogPosition {
        LogPosition(position.0 + LogRing::lines_for(SESSION + payload_bytes))
    }

    /// Returns the records of the log, in order.
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

    /// Returns the records behind the log's end, in order. If each append has a fence of its own, a record that is not
    /// old proves that an earlier record was damaged. Among records that share a fence, a crash may have lost the
    /// earlier one.
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
