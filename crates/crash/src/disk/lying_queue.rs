//! A queue to a lying disk.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use ferrite_disk::{Completion, Queue, Request, Wait};
use ferrite_memory::{Error, Result};

use super::LyingDisk;

/// The requests of one thread in flight at a [`LyingDisk`].
///
/// Requests end only when the thread collects, by the disk's seed, so the descriptor is readable while a request is in
/// flight. A collection that does not wait for ever may find that no request has ended.
pub(super) struct LyingQueue {
    disk: LyingDisk,
    number: u64,
    /// Holds one byte for the reader while a request is in flight.
    reader: UnixStream,
    writer: UnixStream,
}

impl LyingQueue {
    pub fn new(disk: LyingDisk, number: u64) -> Result<Self> {
        let made = UnixStream::pair().map_err(|error| Error::io("making the descriptor of a lying queue", error));
        let (reader, writer) = made?;
        Ok(Self { disk, number, reader, writer })
    }

    fn complete(&self, least: u64) -> Result<Vec<Completion>> {
        if self.in_flight() == 0 {
            return Ok(Vec::new());
        }
        let completions = self.disk.complete(self.number, least);
        if self.in_flight() == 0 {
            let heard = (&self.reader).read_exact(&mut [0]);
            heard.map_err(|error| Error::io("reading the descriptor of a lying queue", error))?;
        }
        Ok(completions)
    }
}

impl Queue for LyingQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let was_idle = self.in_flight() == 0;
        let completion = self.disk.take(request, self.number);
        if completion.is_none() && was_idle {
            (&self.writer).write_all(&[1]).expect("the reader is open, and no byte waits");
        }
        completion
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let collected = self.complete(u64::from(wait == Wait::Forever))?;
        let count = collected.len();
        completions.extend(collected);
        Ok(count)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.disk.state().in_flight(self.number) as usize
    }
}

impl Drop for LyingQueue {
    fn drop(&mut self) {
        let _ = self.disk.complete(self.number, u64::MAX);
    }
}
