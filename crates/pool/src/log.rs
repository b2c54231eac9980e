//! A log: records that are appended to a ring in a tag, and cut off at the front.
//!
//! ```text
//! MAP page    0 head word: position of the oldest record, sealed (see `checked_word`)    8 zeros
//! DATA        the ring, tag.size bytes in lines of 64; line `position mod lines` starts the record at `position`
//!
//!   | cut, free for reuse | head: oldest .. newest :tail | free |
//!
//! record      see `checked_record`; its sequence is its position + 1, its checksum starts from the log's salt
//! payload     0 session u64: greater at each opening of the log    8 the caller's bytes
//! ```
//!
//! A position counts lines since the log was made and is never used twice.
//!
//! - W1. A record is in the log if it verifies at its place with the sequence of its position, every record from the
//!   head up to it does, and its session is not older than the previous record's. The first record for which this is
//!   false ends the log.
//! - W2. An append stores its records past the cache, fences once, and is durable when it returns. A crash before that
//!   keeps the first few of the records that share a fence, or none.
//! - W3. Space before the head is overwritten only after the head word that frees it is durable.
//! - W4. Records that a crash left behind a lost one never return. Behind a record that is appended in place of the
//!   lost one they have an older session. The session says nothing if all records before them are cut off, because the
//!   first record has no predecessor. So they are wiped, durably, before the first append of an opening.
//!   [`TagLog::open_wiped`] does that. Other callers append one record to a fence, so that a crash leaves no record
//!   behind a lost one, or wipe such records themselves.
//! - W5. The head and the records that opening finds are made durable before a caller sees them: a killed process may
//!   have left them visible only, because a store past the cache may still end in the cache.
//! - W6. After a failed persist, appends and cuts are refused until the pool is opened again.

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
use crate::holding::TagLease;
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
    /// The session of the last record that opening found.
    last: u64,
    frozen: bool,
    /// The buffer in which a record is built before it is stored.
    draft: Vec<u8>,
    /// The place behind the last record.
    cursor: LogCursor,
}

impl LogState {
    /// Stores the record of `payload` at position `at` of `ring`; the next settle makes it durable.
    #[inline]
    fn store(&mut self, ring: &LogRing, memory: &dyn Memory, at: u64, payload: &[u8]) {
        let Self { draft, session, cursor, .. } = self;
        checked_record::compose(draft, ring.salt(), at + 1, [*session], payload);
        ring.store_on(memory, cursor, at, draft);
    }

    /// Refuses records of `lines` lines if they do not fit into the ring of the log in `tag`.
    fn check_room(&self, ring: &LogRing, tag: &Tag, lines: u64) -> Result<()> {
        let free = ring.lines() - (self.tail - self.head);
        if lines <= free && self.tail + lines < NUMBER_MAX {
            return Ok(());
        }
        let (name, capacity_bytes) = (tag.name.clone(), tag.size);
        Err(Error::LogFull { name, needed_bytes: lines * 64, free_bytes: free * 64, capacity_bytes })
    }
}

/// An open log. A log has one handle at a time; any thread may use it, one append at a time.
#[derive(Debug)]
pub struct TagLog {
    holding: Arc<TagLease>,
    tag: Arc<Tag>,
    head_at: u64,
    head_salt: u32,
    ring: LogRing,
    state: Mutex<LogState>,
    thawed: Condvar,
}

impl TagLog {
    /// Opens the log in the DATA and MAP streams of a held tag, and keeps the records behind its end (W4). The caller
    /// freezes the log with the pool.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the layout or the head is damaged; else as [`TagLease`] says.
    pub fn open_within(holding: Arc<TagLease>) -> Result<Self> {
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

    /// Finds the end (W1) and makes the log up to it durable (W5).
    fn find_end(&self) -> Result<()> {
        let mut state = self.state.lock();
        (state.tail, state.last) = self.ring.find_end(self.holding.memory(), state.head);
        state.session = state.session.max(state.last);
        self.holding.check_poison()?;
        self.ring.flush(self.holding.memory(), state.head..state.tail);
        self.holding.persist(Span::new(self.head_at, 8))
    }

    /// Returns the record at `position` and its session.
    fn read(&self, position: u64, lines: u64) -> Option<(CheckedRecord, u64)> {
        self.ring.read(self.holding.memory(), position, lines)
    }

    /// Returns the log's tag.
    pub fn tag(&self) -> &Arc<Tag> {
        &self.tag
    }

    /// Returns the capacity in bytes. A record takes its payload and 24 bytes, rounded up to 64.
    pub fn capacity_bytes(&self) -> u64 {
        self.tag.size
    }

    /// Returns the bytes that the log's records take.
    pub fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        (state.tail - state.head) * 64
    }

    /// Returns the position of the oldest record, or the end if the log is empty.
    pub fn head(&self) -> LogPosition {
        LogPosition(self.state.lock().head)
    }

    /// Returns the position of the next record.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.state.lock().tail)
    }

    /// Appends records that share one fence. All are durable on return; a crash before that keeps the first few, or
    /// none (W2). If they do not all fit, none is appended.
    ///
    /// # Errors
    /// [`Error::LogFull`] until enough is cut, [`Error::Limit`] for more than [`TagLog::PAYLOAD_BYTES_MAX`]; else as
    /// [`TagLease`] says.
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
        self.holding.drain()?;
        state.tail = tail;
        Ok(positions)
    }

    /// Cuts off every record before `position`, which has to be the start of a record or the end. Durable on return
    /// (W3).
    ///
    /// # Errors
    /// [`Error::Limit`] if no record starts there; else as [`TagLease`] says.
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

    /// Returns the records from the oldest to the one that is the newest now, without those that are cut during the
    /// iteration.
    pub fn records(&self) -> LogRecords<'_> {
        let state = self.state.lock();
        LogRecords { log: self, next: state.head, end: state.tail }
    }

    /// Waits while the pool is frozen.
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
