//! A log: records appended one behind the other to a ring in a tag, and cut off at the front.
//!
//! ```text
//! MAP page    0 head word: position of the oldest record, sealed (see `checked_word`)    8 zeros
//! DATA        the ring, tag.size bytes in lines of 64; line `position mod lines` starts the record at `position`
//!
//!   | cut, to be used again | head: oldest .. newest :tail | to be used |
//!
//! record      see `checked_record`; its sequence is its position + 1, its checksum starts from the log's salt
//! payload     0 session u64: greater at each opening of the log    8 what the caller appended
//! ```
//!
//! A position counts lines since the log was made and never comes again.
//!
//! - W1. A record is in the log when it verifies at its place with the sequence of its position, every record from the
//!   head up to it does, and its session is not older than the one before. The first that is not so ends the log.
//! - W2. An append is durable when it returns: its records, stored past the cache, and one fence. A crash before that
//!   leaves of the records that share a fence the first few, or none.
//! - W3. What lies before the head is overwritten only after the head word that says so is durable.
//! - W4. Records that a crash left behind a lost one never come back: behind what is appended in its place they are of
//!   an older session. Where all before them is cut off that tells nothing, as the first record has none before it: so
//!   they are wiped, durably, before the first append of an opening. [`TagLog::open_wiped`] does that; who opens a log
//!   otherwise appends one record to a fence, so that a crash leaves none behind a lost one, or wipes them itself.
//! - W5. What opening finds is made durable before it is shown: a killed process may have left it visible only, records
//!   too, since what was stored past the cache may end in it.
//! - W6. After a failed persist nothing is appended or cut until the pool is opened again.

pub(crate) mod log_head;
mod log_records;
mod log_ring;
mod log_seek;
mod log_view;
mod staged_append;

use std::sync::Arc;

use ferrite_memory::{Memory, Span};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::checked_record::{self, CheckedRecord};
use crate::checked_word::{NUMBER_MAX, seal};
use crate::freeze::Freeze;
use crate::holding::Holding;
use crate::tag::Tag;
use crate::{Error, Result};
use log_head::{LogLayout, SESSION, salt};
pub use log_head::{LogPosition, relocate_log};
pub use log_records::LogRecords;
use log_ring::{LogCursor, LogRing};
pub use log_view::{LogView, StrandedRecord};

/// Longest payload of one record in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;

#[derive(Debug)]
struct LogState {
    head: u64,
    tail: u64,
    session: u64,
    /// That of the last record that opening found.
    last: u64,
    frozen: bool,
    /// Where a record is put together before it is stored.
    draft: Vec<u8>,
    /// Where the last one ended.
    cursor: LogCursor,
}

impl LogState {
    /// Stores the record of `payload` at position `at` of `ring`, durable with the next settle.
    #[inline]
    fn store(&mut self, ring: &LogRing, memory: &dyn Memory, at: u64, payload: &[u8]) {
        let Self { draft, session, cursor, .. } = self;
        checked_record::compose(draft, ring.salt(), at + 1, [*session], payload);
        ring.store_on(memory, cursor, at, draft);
    }

    /// Refuses what does not fit into the ring of the log in `tag`.
    fn check_room(&self, ring: &LogRing, tag: &Tag, lines: u64) -> Result<()> {
        let free = ring.lines() - (self.tail - self.head);
        if lines <= free && self.tail + lines < NUMBER_MAX {
            return Ok(());
        }
        let (name, capacity_bytes) = (tag.name.clone(), tag.size);
        Err(Error::LogFull { name, needed_bytes: lines * 64, free_bytes: free * 64, capacity_bytes })
    }
}

/// An open log. One handle at a time; any thread may use it, one append at a time.
#[derive(Debug)]
pub struct TagLog {
    holding: Arc<Holding>,
    tag: Arc<Tag>,
    head_at: u64,
    head_salt: u32,
    ring: LogRing,
    state: Mutex<LogState>,
    thawed: Condvar,
}

impl TagLog {
    /// Opens the log that lies in the DATA and MAP streams of a held tag, and leaves what stands behind its end (W4). Its
    /// holder lets it stand still with the pool.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where its layout or its head is damaged; else as [`Holding`] says.
    pub fn open_within(holding: Arc<Holding>) -> Result<Self> {
        let (tag, uuid, session) = (holding.tag(), holding.uuid(), holding.session());
        let LogLayout { stream, head_at, head_salt, head } = LogLayout::read(holding.memory(), &uuid, &tag)?;
        let ring = LogRing::new(stream, tag.size, salt(&uuid, tag.generation));
        let state = Mutex::new(LogState {
            head,
            tail: head,
            session,
            last: 0,
            frozen: false,
            draft: Vec::new(),
            cursor: LogCursor::default(),
        });
        let log = Self { holding, tag, head_at, head_salt, ring, state, thawed: Condvar::new() };
        log.find_end()?;
        Ok(log)
    }

    /// Finds the end (W1) and makes durable what stands before it (W5).
    fn find_end(&self) -> Result<()> {
        let mut state = self.state.lock();
        (state.tail, state.last) = self.ring.find_end(self.holding.memory(), state.head);
        state.session = state.session.max(state.last);
        self.holding.check_poison()?;
        self.ring.flush(self.holding.memory(), state.head..state.tail);
        self.holding.persist(Span::new(self.head_at, 8))
    }

    /// The record at `position` and its session.
    fn read(&self, position: u64, lines: u64) -> Option<(CheckedRecord, u64)> {
        self.ring.read(self.holding.memory(), position, lines)
    }

    /// Its tag.
    pub fn tag(&self) -> &Arc<Tag> {
        &self.tag
    }

    /// Bytes that records can take in all: each takes its payload and 24 more, rounded up to 64.
    pub fn capacity_bytes(&self) -> u64 {
        self.tag.size
    }

    /// Bytes that records take.
    pub fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        (state.tail - state.head) * 64
    }

    /// Where the oldest record is; the end where there is none.
    pub fn head(&self) -> LogPosition {
        LogPosition(self.state.lock().head)
    }

    /// Where the next record will be.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.state.lock().tail)
    }

    /// Appends records that share one fence; all durable on return, and after a crash before that maybe the first few
    /// (W2). Where they do not fit, none is appended.
    ///
    /// # Errors
    /// [`Error::LogFull`] until enough is cut, [`Error::Limit`] for more than [`TagLog::PAYLOAD_BYTES_MAX`]; else as
    /// [`Holding`] says.
    pub fn append_many(&self, payloads: &[&[u8]]) -> Result<Vec<LogPosition>> {
        payloads.iter().try_for_each(|payload| ensure_short(payload.len()))?;
        let mut state = self.writable()?;
        let lines = payloads.iter().map(|payload| LogRing::lines_for(SESSION + payload.len())).sum();
        state.check_room(&self.ring, &self.tag, lines)?;
        let (mut tail, mut positions) = (state.tail, Vec::with_capacity(payloads.len()));
        for payload in payloads {
            state.store(&self.ring, self.holding.memory(), tail, payload);
            positions.push(LogPosition(tail));
            tail += LogRing::lines_for(SESSION + payload.len());
        }
        self.holding.settle()?;
        state.tail = tail;
        Ok(positions)
    }

    /// Cuts off every record before `position`, where a record starts or the log ends. Durable on return (W3).
    ///
    /// # Errors
    /// [`Error::Limit`] where no record starts there; else as [`Holding`] says.
    pub fn cut(&self, position: LogPosition) -> Result<()> {
        let mut state = self.writable()?;
        let LogPosition(to) = position;
        let within = (state.head..=state.tail).contains(&to);
        if !within || (to < state.tail && self.read(to, state.tail - to).is_none()) {
            let (name, end) = (&self.tag.name, state.tail);
            return Err(Error::Limit(format!("no record of log {name:?} starts at position {to}; it ends at {end}")));
        }
        self.holding.memory().store_word(self.head_at, seal(self.head_salt, to));
        self.holding.persist(Span::new(self.head_at, 8))?;
        state.head = to;
        Ok(())
    }

    /// The records from the oldest to the one that is newest now. Those that are cut meanwhile are passed over.
    pub fn records(&self) -> LogRecords<'_> {
        let state = self.state.lock();
        LogRecords { log: self, next: state.head, end: state.tail }
    }

    /// Waits while the pool stands still.
    fn writable(&self) -> Result<MutexGuard<'_, LogState>> {
        let mut state = self.state.lock();
        self.thawed.wait_while(&mut state, |state| state.frozen);
        self.holding.check_poison()?;
        Ok(state)
    }
}

fn ensure_short(payload_bytes: usize) -> Result<()> {
    if payload_bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Limit(format!("a record of {payload_bytes} bytes exceeds {PAYLOAD_BYTES_MAX}")))
}

impl Freeze for TagLog {
    fn freeze(&self) {
        self.state.lock().frozen = true;
    }

    fn thaw(&self) {
        self.state.lock().frozen = false;
        self.thawed.notify_all();
    }
}

#[cfg(test)]
mod tests;
