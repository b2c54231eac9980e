//! The records of a log, in order.

use super::Log;
use super::log_head::{Position, SESSION};
use super::log_ring::Ring;
use crate::{Error, Result};

/// See [`Log::records`]. A record that no longer verifies is an error, and the last item.
#[derive(Debug)]
pub struct Records<'log> {
    pub(super) log: &'log Log,
    pub(super) next: u64,
    pub(super) end: u64,
}

impl Iterator for Records<'_> {
    type Item = Result<(Position, Vec<u8>)>;

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
        self.next = at + Ring::lines_for(record.payload.len());
        Some(Ok((Position(at), record.payload[SESSION..].to_vec())))
    }
}
