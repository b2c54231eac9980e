//! Appends by many writers that share no lock. Another module assigns the positions.
//!
//! That module assigns each position once, from the log's end on and within the free lines, and makes staged records
//! durable before it publishes them. Then W1 to W6 hold as for [`TagLog::append_many`], which must not be called at the
//! same time.

use std::cell::RefCell;

use ferrite_memory::Scheme;

use super::log_head::{LogPosition, SESSION};
use super::log_ring::LogRing;
use super::{PAYLOAD_BYTES_MAX, TagLog};
use crate::checked_record::{self, CheckedRecord};
use crate::checked_word::NUMBER_MAX;
use crate::{Error, Result};

thread_local! {
    /// The buffer in which this thread builds records.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl TagLog {
    /// The bound of positions.
    pub const POSITION_MAX: u64 = NUMBER_MAX;
    /// Longest payload of one record in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

    /// Returns the number of lines of 64 bytes. A record takes some of them from its position on, and the next one
    /// starts behind.
    pub fn lines(&self) -> u64 {
        self.ring.lines()
    }

    /// Returns the number of lines that a record with `payload_bytes` of payload takes.
    pub fn lines_for(payload_bytes: usize) -> u64 {
        LogRing::lines_for(SESSION + payload_bytes)
    }

    /// Returns the start of the records' checksums, also for copies of records.
    pub fn salt(&self) -> u32 {
        self.ring.salt()
    }

    /// Returns the session of records that this opening appends (W4).
    pub fn session(&self) -> u64 {
        self.state.lock().session
    }

    /// Stores a record of `session` at `at` by `how`. The record is neither durable nor part of the log yet.
    pub fn stage(&self, at: LogPosition, session: u64, payload: &[u8], how: Scheme) {
        ROOM.with_borrow_mut(|bytes| {
            checked_record::compose(bytes, self.ring.salt(), at.0 + 1, [session], payload);
            self.ring.store_by(self.holding.memory(), at.0, bytes, how);
        });
    }

    /// Makes the staged records up to `end` part of the log. The caller has made them durable.
    pub fn publish(&self, end: LogPosition) {
        let mut state = self.state.lock();
        state.tail = state.tail.max(end.0);
    }

    /// Returns whole records from `from` on as they are stored, about `bytes_max` or at least one, and the position of
    /// the next one. Empty at the log's end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a record does not verify.
    pub fn image(&self, from: LogPosition, bytes_max: usize) -> Result<(Vec<u8>, LogPosition)> {
        let state = self.state.lock();
        let (mut at, mut image) = (from.0.max(state.head), Vec::new());
        while at < state.tail && (image.is_empty() || image.len() < bytes_max) {
            let record = self.ring.bytes(self.holding.memory(), at, state.tail - at).ok_or_else(|| {
                let what = format!("the record at position {at} of log {:?}", self.tag.name);
                Error::corrupt(what, self.ring.place(at))
            })?;
            at += record.len() as u64 / 64;
            image.extend(record);
        }
        Ok((image, LogPosition(at)))
    }

    /// Returns the payload of `record`, stored at `position` of a log of this `salt`, or `None` if it does not verify.
    pub fn payload_of(salt: u32, position: LogPosition, record: &[u8]) -> Option<Vec<u8>> {
        let record = CheckedRecord::parse(salt, record).filter(|record| record.sequence == position.0 + 1)?;
        record.payload.get(SESSION..).map(<[u8]>::to_vec)
    }

    /// Returns the bytes of the record that begins with `line`, stored at `position`, or `None` if `line` is not its
    /// start.
    pub fn record_bytes(position: LogPosition, line: &[u8]) -> Option<usize> {
        let (_, payload_bytes, sequence) = checked_record::header(line)?;
        let whole = sequence == position.0 + 1 && payload_bytes <= SESSION + PAYLOAD_BYTES_MAX;
        whole.then(|| checked_record::footprint(payload_bytes))
    }
}
