//! A log as it lies: what opening finds of it, and what a check looks at, which has nothing in hand.

use std::fmt;

use ferrite_memory::Memory;

use super::Log;
use super::log_head::{Layout, Position, SESSION, salt};
use super::log_ring::Ring;
use crate::checked_word::NUMBER_MAX;
use crate::extent::{Role, Stream};
use crate::tag::Tag;
use crate::{Error, Pool, Result};

/// A log as it lies. Nobody stores into it meanwhile.
pub struct View<'a> {
    memory: &'a dyn Memory,
    ring: Ring,
    head: u64,
    tail: u64,
    /// Of the last record; 0 where there is none.
    session: u64,
}

/// A record that stands behind the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// Where.
    pub position: Position,
    /// What was appended.
    pub payload: Vec<u8>,
    /// Whether something before it is of a later session: it was left behind by a crash, and says nothing (W4).
    pub is_old: bool,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("head", &self.head).field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl Log {
    /// What opening found of it; before anything is appended.
    pub fn view(&self) -> View<'_> {
        let stream = Stream::new(&self.tag.extents, Role::DATA);
        let ring = Ring::new(stream, self.tag.size, self.ring.salt());
        let state = self.state.lock();
        View { memory: self.holding.memory(), ring, head: state.head, tail: state.tail, session: state.last }
    }
}

impl<'a> View<'a> {
    /// The log in the DATA and MAP streams of `tag`. Reads only.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where its layout or its head is damaged.
    pub fn of(pool: &'a Pool, tag: &Tag) -> Result<Self> {
        let (memory, uuid) = (pool.memory(), pool.superblock().uuid);
        let Layout { stream, head, .. } = Layout::read(memory, &uuid, tag)?;
        let ring = Ring::new(stream, tag.size, salt(&uuid, tag.generation));
        Ok(Self { memory, ring, head, tail: head, session: 0 }.from(Position(head)))
    }

    /// The same log as if it began at `position`.
    #[must_use]
    pub fn from(mut self, Position(head): Position) -> Self {
        // What asks may have it from a medium that holds anything.
        self.head = head.min(NUMBER_MAX);
        (self.tail, self.session) = self.ring.find_end(self.memory, self.head);
        self
    }

    /// Where the oldest record is.
    pub fn head(&self) -> Position {
        Position(self.head)
    }

    /// Where the log ends (W1).
    pub fn end(&self) -> Position {
        Position(self.tail)
    }

    /// The pool's byte where `position` lies.
    pub fn place(&self, position: Position) -> u64 {
        self.ring.place(position.0)
    }

    /// The position behind a record at `position` of so many bytes.
    pub fn behind(&self, position: Position, payload_bytes: usize) -> Position {
        Position(position.0 + Ring::lines_for(SESSION + payload_bytes))
    }

    /// The records that are in the log, in order.
    pub fn records(&self) -> impl Iterator<Item = Result<(Position, Vec<u8>)>> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let at = Some(next).filter(|at| *at < self.tail)?;
            let Some((record, _)) = self.ring.read(self.memory, at, self.tail - at) else {
                next = self.tail;
                let what = format!("the record at position {at} of a log");
                return Some(Err(Error::corrupt(what, self.ring.place(at))));
            };
            next = at + Ring::lines_for(record.payload.len());
            Some(Ok((Position(at), record.payload[SESSION..].to_vec())))
        })
    }

    /// The records that stand behind its end, in order. Where each append is a fence of its own, one that is not `old` tells
    /// that what stood before it was damaged; among those that share a fence a crash may have lost that.
    pub fn stranded(&self) -> impl Iterator<Item = Stranded> {
        let (mut next, mut session, last) = (self.tail, self.session, self.head + self.ring.lines());
        std::iter::from_fn(move || {
            let read = |at| Some((at, self.ring.read(self.memory, at, last - at)?));
            let (at, (record, of)) = self.ring.starts(self.memory, next..last).find_map(read)?;
            next = at + Ring::lines_for(record.payload.len());
            let is_old = of < session;
            session = session.max(of);
            Some(Stranded { position: Position(at), payload: record.payload[SESSION..].to_vec(), is_old })
        })
    }
}
