//! A stream of parts that a thread of its own produces. The receiver of the parts can stop while no part arrives: a
//! pipe may be slow.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// Time between two calls of `goes_on` while no part arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Batches of a trace that may wait for the receiver.
const WAITING: usize = 4;

/// Parts that a thread produces. When the stream is dropped, the thread ends with the part that it is producing.
pub struct PartStream<T>(Receiver<T>);

/// The next part of a stream, or the reason why none follows.
pub enum NextPart<T> {
    /// A part.
    Part(T),
    /// The thread has ended.
    End,
    /// No part arrived yet, and the receiver does not want to wait.
    Stopped,
}

impl<T: Send + 'static> PartStream<T> {
    /// Returns the parts that `give` sends from a new thread; at most `waiting` parts wait for the receiver.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn of(waiting: usize, give: impl FnOnce(&SyncSender<T>) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(waiting);
        thread::Builder::new().spawn(move || give(&sender))?;
        Ok(Self(receiver))
    }

    /// Waits for the next part. While no part arrives, `goes_on` says whether to wait on.
    pub fn next(&self, goes_on: &mut dyn FnMut() -> bool) -> NextPart<T> {
        loop {
            match self.0.recv_timeout(POLL_INTERVAL) {
                Ok(part) => return NextPart::Part(part),
                Err(RecvTimeoutError::Disconnected) => return NextPart::End,
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(RecvTimeoutError::Timeout) => return NextPart::Stopped,
            }
        }
    }
}

/// A message of the thread that reads a trace.
enum DeliveredBatch<T> {
    Batch(Vec<T>),
    /// The trace ended well; true if its last line has no end.
    End(bool),
    Failure(Error),
}

/// A trace that a thread of its own reads ahead, so that decompressing and parsing do not delay the simulation. When it
/// is dropped, the thread ends with the batch that it is reading.
pub struct ReadAhead<T> {
    handed: PartStream<DeliveredBatch<T>>,
    /// True if the last line has no end; known at the end.
    is_cut: Option<bool>,
}

impl<T: Send + 'static> ReadAhead<T> {
    /// Starts to read the trace that `open` opens. `gather` adds one batch and returns true if more may follow;
    /// `is_cut` is the answer of [`ReadAhead::is_cut`] for the reader.
    pub(crate) fn of<R: 'static>(
        open: impl FnOnce() -> Result<R> + Send + 'static,
        gather: fn(&mut R, &mut Vec<T>) -> Result<bool>,
        is_cut: fn(&R) -> bool,
    ) -> Result<Self> {
        let read = move |to: &SyncSender<DeliveredBatch<T>>| -> Result<bool> {
            let mut reader = open()?;
            loop {
                let mut batch = Vec::new();
                let more = gather(&mut reader, &mut batch);
                let is_taken = batch.is_empty() || to.send(DeliveredBatch::Batch(batch)).is_ok();
                if !(more? && is_taken) {
                    return Ok(is_cut(&reader));
                }
            }
        };
        // If the receiver is gone, the end is of no interest.
        let give =
            move |to: &SyncSender<_>| drop(to.send(read(to).map_or_else(DeliveredBatch::Failure, DeliveredBatch::End)));
        let handed = PartStream::of(WAITING, give).map_err(Error::io("starting a thread that reads the trace"))?;
        Ok(Self { handed, is_cut: None })
    }

    /// Returns true if the last line has no end, so the trace may be cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.is_cut.unwrap_or(false)
    }

    /// Waits for the next batch. While no batch arrives, `goes_on` says whether to wait on.
    ///
    /// # Errors
    /// The trace is malformed, reported after all batches before that place; [`Error::Reader`].
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<NextPart<Vec<T>>> {
        Ok(match self.handed.next(goes_on) {
            NextPart::Part(DeliveredBatch::Batch(batch)) => NextPart::Part(batch),
            NextPart::Part(DeliveredBatch::Failure(error)) => return Err(error),
            NextPart::Part(DeliveredBatch::End(is_cut)) => {
                self.is_cut = Some(is_cut);
                NextPart::End
            }
            NextPart::End if self.is_cut.is_none() => return Err(Error::Reader),
            NextPart::End => NextPart::End,
            NextPart::Stopped => NextPart::Stopped,
        })
    }
}

#[cfg(test)]
mod tests;
