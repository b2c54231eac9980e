//! Access to a log at positions: appends by its only user, single records, and the wiping of records behind its end.

use std::sync::Arc;

use ferrite_memory::{Scheme, Span};

use super::log_head::{LogPosition, SESSION};
use super::log_ring::LogRing;
use super::{LogState, TagLog, ensure_short};
use crate::checked_record::{self, ALIGN};
use crate::checked_word::{NUMBER_MAX, seal};
use crate::holding::TagLease;
use crate::{Error, Result};

impl TagLog {
    /// Appends a record of `payload` without a lock: the caller is the log's only user, and freezes it with the pool.
    /// See [`TagLog::append_many`].
    ///
    /// # Errors
    /// As [`TagLog::append_many`].
    #[inline]
    pub fn append_alone(&mut self, payload: &[u8]) -> Result<LogPosition> {
        self.append_words(payload.len(), |state, salt, sequence| {
            checked_record::compose(&mut state.draft, salt, sequence, [state.session], payload);
        })
    }

    /// Appends a record of two little-endian words and `payload`, as [`TagLog::append_alone`] does.
    ///
    /// # Errors
    /// As [`TagLog::append_many`].
    #[inline]
    pub fn append_alone_with(&mut self, [first, second]: [u64; 2], payload: &[u8]) -> Result<LogPosition> {
        self.append_words(16 + payload.len(), |state, salt, sequence| {
            checked_record::compose(&mut state.draft, salt, sequence, [state.session, first, second], payload);
        })
    }

    /// Appends a record of `bytes` bytes, which `compose` builds in the draft from a salt and a sequence.
    #[inline]
    fn append_words(&mut self, bytes: usize, compose: impl FnOnce(&mut LogState, u32, u64)) -> Result<LogPosition> {
        ensure_short(bytes)?;
        self.holding.check_poison()?;
        let lines = LogRing::lines_for(SESSION + bytes);
        let Self { holding, ring, tag, state, .. } = self;
        let state = state.get_mut();
        state.check_room(ring, tag, lines)?;
        let at = state.tail;
        compose(state, ring.salt(), at + 1);
        ring.store_on(holding.memory(), &mut state.cursor, at, &state.draft);
        holding.drain()?;
        state.tail = at + lines;
        Ok(LogPosition(at))
    }

    /// Returns [`TagLog::used_bytes`] without a lock.
    pub fn used_bytes_alone(&mut self) -> u64 {
        let state = self.state.get_mut();
        (state.tail - state.head) * 64
    }

    /// Returns the caller's bytes of the record at `position`, if a whole record is there, in the log or behind its
    /// end.
    pub fn record_at(&self, position: LogPosition) -> Option<Vec<u8>> {
        let (head, lap) = (self.head(), self.next_lap());
        let left = lap.0.checked_sub(position.0).filter(|left| *left > 0 && position >= head)?;
        let (record, _) = self.read(position.0, left)?;
        Some(record.payload[SESSION..].to_vec())
    }

    /// Opens the log as [`TagLog::open_within`] does, and wipes the records behind its end (W4).
    ///
    /// # Errors
    /// As [`TagLog::open_within`].
    pub fn open_wiped(holding: Arc<TagLease>) -> Result<Self> {
        let mut log = Self::open_within(holding)?;
        log.wipe_stranded()?;
        Ok(log)
    }

    /// Wipes the records behind the end, so that they never return. The caller is the log's only user. Durable on
    /// return.
    ///
    /// # Errors
    /// As [`TagLease`] says.
    pub fn wipe_stranded(&mut self) -> Result<()> {
        self.holding.check_poison()?;
        let (memory, end, lap) = (self.holding.memory(), self.end().0, self.next_lap().0);
        for at in self.ring.starts(memory, end..lap).filter(|at| self.read(*at, lap - at).is_some()) {
            self.ring.store_by(memory, at, &[0; ALIGN], Scheme::Nt);
        }
        self.holding.drain()
    }

    /// Returns the byte of the pool for `position`.
    pub fn place(&self, position: LogPosition) -> u64 {
        self.ring.place(position.0)
    }

    /// Returns a position that no record in the ring has ever had.
    pub fn next_lap(&self) -> LogPosition {
        LogPosition(self.head().0 + self.ring.lines())
    }

    /// Restarts the log at `position`, which is not before its head. Records before it are dropped, and records from
    /// there on are searched again. Durable on return (W3).
    ///
    /// # Errors
    /// [`Error::Limit`] if `position` is before the head; else as [`TagLease`] says.
    pub fn restart_at(&self, position: LogPosition) -> Result<()> {
        let mut state = self.writable()?;
        if position.0 < state.head || position.0 > NUMBER_MAX - self.ring.lines() {
            let (name, head) = (&self.tag.name, state.head);
            return Err(Error::Limit(format!("log {name:?} begins at {head} and cannot begin at {}", position.0)));
        }
        self.holding.memory().store_word(self.head_at, seal(self.head_salt, position.0));
        self.holding.persist(Span::new(self.head_at, 8))?;
        (state.head, state.tail) = (position.0, position.0);
        drop(state);
        self.find_end()
    }
}
