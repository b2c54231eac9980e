//! Something that a thread of its own gives part by part, so that whoever takes the parts can stop while none comes: a
//! pipe may be slow.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// Time between two looks at whether to go on, where nothing comes.
const LOOK: Duration = Duration::from_millis(100);
/// Batches of a trace that wait to be taken.
const WAITING: usize = 4;

/// Parts that a thread gives. When they are dropped, it ends with the part that it is making.
pub struct PartStream<T>(Receiver<T>);

/// What there is next.
pub enum NextPart<T> {
    /// A part.
    Part(T),
    /// Nothing: the thread has ended.
    End,
    /// Nothing yet, and whoever was asked does not want to wait.
    Stopped,
}

impl<T: Send + 'static> PartStream<T> {
    /// What `give` sends; so many parts may wait to be taken.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn of(waiting: usize, give: impl FnOnce(&SyncSender<T>) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(waiting);
        thread::Builder::new().spawn(move || give(&sender))?;
        Ok(Self(receiver))
    }

    /// The next one. While there is none `goes_on` is asked.
    pub fn next(&self, goes_on: &mut dyn FnMut() -> bool) -> NextPart<T> {
        loop {
            match self.0.recv_timeout(LOOK) {
                Ok(part) => return NextPart::Part(part),
                Err(RecvTimeoutError::Disconnected) => return NextPart::End,
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(RecvTimeoutError::Timeout) => return NextPart::Stopped,
            }
        }
    }
}

/// What the thread that reads a trace hands over.
enum DeliveredBatch<T> {
    Batch(Vec<T>),
    /// The trace ended well; whether its last line had no end.
    End(bool),
    Failure(Error),
}

/// A trace that is read ahead by a thread of its own, so that decompressing and parsing cost the simulation nothing.
/// Dropped, its thread ends with the batch it is reading.
pub struct ReadAhead<T> {
    handed: PartStream<DeliveredBatch<T>>,
    /// Known at the end.
    is_cut: Option<bool>,
}

impl<T: Send + 'static> ReadAhead<T> {
    /// Reads from now on what `open` gives. `gather` adds a batch of it and says whether there may be more; `is_cut` says
    /// of it what [`ReadAhead::is_cut`] does.
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
        // Whoever has gone needs no end.
        let give =
            move |to: &SyncSender<_>| drop(to.send(read(to).map_or_else(DeliveredBatch::Failure, DeliveredBatch::End)));
        let handed = PartStream::of(WAITING, give).map_err(Error::io("starting a thread that reads the trace"))?;
        Ok(Self { handed, is_cut: None })
    }

    /// Whether the last line had no end: maybe the trace was cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.is_cut.unwrap_or(false)
    }

    /// What comes next. While the trace gives nothing `goes_on` is asked.
    ///
    /// # Errors
    /// What is wrong with the trace, after all before it was given; [`Error::Reader`].
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
