//! Reading a log back: from its files, then from the ring, as one.

use ferrite_pool::{LogPosition, TagLog};

use crate::Result;
use crate::wal::Wal;

/// The records of a log: see [`Wal::records`]. A record that cannot be read is an error, and the last item.
#[derive(Debug)]
pub struct WalRecords<'wal> {
    wal: &'wal Wal,
    next: u64,
    end: u64,
}

impl<'wal> WalRecords<'wal> {
    pub(crate) fn new(wal: &'wal Wal, next: u64, end: u64) -> Self {
        Self { wal, next, end }
    }

    fn read(&mut self) -> Result<(LogPosition, Vec<u8>)> {
        let position = LogPosition::from_number(self.next);
        let record = self.wal.record(self.next)?;
        let payload = TagLog::payload_of(self.wal.salt(), position, &record).expect("it verified when it was read");
        self.next += record.len() as u64 / 64;
        Ok((position, payload))
    }
}

impl Iterator for WalRecords<'_> {
    type Item = Result<(LogPosition, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.next = self.next.max(self.wal.start());
            if self.next >= self.end {
                return None;
            }
            let read = self.read();
            if read.is_ok() {
                return Some(read);
            }
            // A record that was truncated while it was searched is not an error.
            if self.wal.start() <= self.next {
                self.next = u64::MAX;
                return Some(read);
            }
        }
    }
}
