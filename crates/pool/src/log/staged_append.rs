//! Records whose places are given out by somebody else: many writers that share no lock.
//!
//! Whoever stages gives each place out once, from the log's end on and within the lines that are free, and makes what
//! is staged durable before it is published. Then W1 to W6 hold as for [`TagLog::append_many`], which nobody calls meanwhile.

use std::cell::RefCell;

use ferrite_memory::Scheme;

use super::log_head::{LogPosition, SESSION};
use super::log_ring::LogRing;
use super::{PAYLOAD_BYTES_MAX, TagLog};
use crate::checked_record::{self, CheckedRecord};
use crate::checked_word::NUMBER_MAX;
use crate::{Error, Result};

thread_local! {
    /// Room for a record, kept from one to the next.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl TagLog {
    /// Positions are less than this.
    pub const POSITION_MAX: u64 = NUMBER_MAX;
    /// Longest payload of one record in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

    /// How many lines of 64 bytes it has: a record at `position` takes some of them, and the next one starts behind.
    pub fn lines(&self) -> u64 {
        self.ring.lines()
    }

    /// The lines that a record with `payload_bytes` of payload takes.
    pub fn lines_for(payload_bytes: usize) -> u64 {
        LogRing::lines_for(SESSION + payload_bytes)
    }

    /// What its records' checksums start from, wherever they are copied to.
    pub fn salt(&self) -> u32 {
        self.ring.salt()
    }

    /// The session of what this opening appends (W4).
    pub fn session(&self) -> u64 {
        self.state.lock().session
    }

    /// Stores a record of `session` at `at` by `how`. It is neither durable nor part of the log yet.
    pub fn stage(&self, at: LogPosition, session: u64, payload: &[u8], how: Scheme) {
        ROOM.with_borrow_mut(|bytes| {
            checked_record::compose(bytes, self.ring.salt(), at.0 + 1, [session], payload);
            self.ring.store_by(self.holding.memory(), at.0, bytes, how);
        });
    }

    /// Makes what was staged up to `end` part of the log. It is durable.
    pub fn publish(&self, end: LogPosition) {
        let mut state = self.state.lock();
        state.tail = state.tail.max(end.0);
    }

    /// Records from `from` on as they lie in the ring, whole ones, about `bytes_max` or at least one; and where the
    /// next one starts. Empty at the end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a record does not verify.
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

    /// The payload of `record`, which lay at `position` of a log of this `salt`; `None` where it does not verify.
    pub fn payload_of(salt: u32, position: LogPosition, record: &[u8]) -> Option<Vec<u8>> {
        let record = CheckedRecord::parse(salt, record).filter(|record| record.sequence == position.0 + 1)?;
        record.payload.get(SESSION..).map(<[u8]>::to_vec)
    }

    /// Bytes of the record that begins with `line`, which lay at `position`, if it can be one.
    pub fn record_bytes(position: LogPosition, line: &[u8]) -> Option<usize> {
        let (_, payload_bytes, sequence) = checked_record::header(line)?;
        let whole = sequence == position.0 + 1 && payload_bytes <= SESSION + PAYLOAD_BYTES_MAX;
        whole.then(|| checked_record::footprint(payload_bytes))
    }
}
