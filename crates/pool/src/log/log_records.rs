//! The records of a log, in order.

use super::TagLog;
use super::log_head::{LogPosition, SESSION};
use super::log_ring::LogRing;
use crate::{Error, Result};

/// The iterator of [`TagLog::records`]. A record that no longer verifies is an error, and the last item.
#[derive(Debug)]
pub struct LogRecords<'log> {
    pub(super) log: &'log TagLog,
    pub(super) next: u64,
    pub(super) end: u64,
}

impl Iterator for LogRecords<'_> {
    type Item = Result<(LogPosition, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let state = self.log.state.lock();
        let at = self.next.max(state.head);
        if at >= self.end {
            return None;
        }
        let Some((record, _)) = self.log.read(at, self.end - at) else {
            self.next = u64::MAX;
            let what = format!("the record at position {at} of log {:?}", self.log.tag.name);
            return Some(Err(Error::corrupt(what, self.log.ring.place(at))));
        };
        self.next = at + LogRing::lines_for(record.payload.len());
        Some(Ok((LogPosition(at), record.payload[SESSION..].to_vec())))
    }
}
