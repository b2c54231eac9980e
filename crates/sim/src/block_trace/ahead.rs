//! A trace that is read ahead by a thread of its own, so that decompressing and parsing cost the simulation nothing.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::{Format, Reader, Request};
use crate::{Error, Result};

/// Requests handed over at once.
const BATCH: usize = 4096;
/// Batches that wait.
const WAITING: usize = 4;
/// How long a trace may give nothing before whoever waits is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);

/// A request, and the line it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// What is asked.
    pub request: Request,
    /// Counted from 1.
    pub line: u64,
}

/// What the thread hands over.
enum Handed {
    Requests(Vec<Numbered>),
    /// The trace ended well; whether its last line had no end.
    End(bool),
    Failure(Error),
}

/// A trace that is read ahead. Dropped, its thread ends with the batch it is reading.
pub struct Ahead {
    path: PathBuf,
    format: Format,
    handed: Receiver<Handed>,
    is_cut: bool,
}

impl Ahead {
    /// Reads `reader` from now on.
    pub fn new(reader: Reader) -> Self {
        let (path, format) = (reader.path().to_owned(), reader.format());
        let (to, handed) = sync_channel(WAITING);
        thread::spawn(move || read(reader, &to));
        Self { path, format, handed, is_cut: false }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the last line had no end: maybe the trace was cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// An error at a line.
    pub fn refuse(&self, line: u64, reason: impl Into<String>) -> Error {
        Error::malformed(&self.path, line, reason)
    }

    /// The next requests; `None` at the end. While the trace gives nothing (a pipe may be slow) `goes_on` is asked, and
    /// where it denies there are none.
    ///
    /// # Errors
    /// As [`Reader::request`], after all requests before it were given.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<Option<Vec<Numbered>>> {
        loop {
            match self.handed.recv_timeout(LOOK) {
                Ok(Handed::Requests(requests)) => return Ok(Some(requests)),
                Ok(Handed::Failure(error)) => return Err(error),
                Ok(Handed::End(is_cut)) => {
                    self.is_cut = is_cut;
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(_) => return Ok(Some(Vec::new())),
            }
        }
    }
}

/// Hands over all of a trace, for as long as somebody takes it.
fn read(mut reader: Reader, to: &SyncSender<Handed>) {
    loop {
        let mut requests = Vec::with_capacity(BATCH);
        let end = gather(&mut reader, &mut requests);
        if !requests.is_empty() && to.send(Handed::Requests(requests)).is_err() {
            return;
        }
        if let Some(end) = end {
            // Whoever has gone needs no end.
            let _ = to.send(end);
            return;
        }
    }
}

fn gather(reader: &mut Reader, into: &mut Vec<Numbered>) -> Option<Handed> {
    while into.len() < BATCH {
        match reader.request() {
            Ok(Some(request)) => into.push(Numbered { request, line: reader.line() }),
            Ok(None) => return Some(Handed::End(reader.is_cut())),
            Err(error) => return Some(Handed::Failure(error)),
        }
    }
    None
}
