//! Compressed bytes that a thread of its own decompresses ahead: decompression takes as long as the simulation.

use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::mpsc::SyncSender;

use super::CHUNK;
use crate::Error;
use crate::read_ahead::{NextPart, PartStream};

/// Parts that may wait for the receiver.
const WAITING: usize = 4;

/// A reader of decompressed bytes.
pub struct DecompressedReader {
    parts: PartStream<io::Result<Vec<u8>>>,
    part: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

impl DecompressedReader {
    /// Starts to decompress: `packed` returns decompressed bytes when it is read.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn of(packed: impl Read + Send + 'static) -> io::Result<Self> {
        let parts = PartStream::of(WAITING, move |to| unpack(packed, to))?;
        Ok(Self { parts, part: Vec::new(), taken: 0, has_ended: false })
    }
}

/// Sends all bytes of `packed` until the receiver is gone; the end or an error is the last message.
fn unpack(mut packed: impl Read, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut part = vec![0; CHUNK];
        let read = match packed.read(&mut part) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read,
        };
        let is_last = !matches!(read, Ok(1..));
        let part = read.map(|read| {
            part.truncate(read);
            part
        });
        if to.send(part).is_err() || is_last {
            return;
        }
    }
}

impl BufRead for DecompressedReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.part.len() && !self.has_ended {
            // A thread that ends without its last message has panicked.
            let NextPart::Part(part) = self.parts.next(&mut || true) else {
                return Err(io::Error::other(Error::Reader));
            };
            (self.part, self.taken) = (part?, 0);
            self.has_ended = self.part.is_empty();
        }
        Ok(&self.part[self.taken..])
    }

    fn consume(&mut self, bytes: usize) {
        self.taken += bytes;
    }
}

impl Read for DecompressedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
