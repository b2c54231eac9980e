//! A trace that is read ahead by a thread of its own, so that decompressing and parsing cost the simulation nothing.

use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use super::{Reader, ReaderOptions, Request};
use crate::ahead::{Next, Parts};
use crate::{Error, Input, Result};

/// Requests handed over at once.
const BATCH: usize = 4096;
/// Batches that wait.
const WAITING: usize = 4;

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
    handed: Parts<Handed>,
    is_cut: bool,
}

impl Ahead {
    /// Reads `reader` from now on.
    pub fn new(reader: Reader) -> Self {
        let path = reader.path().to_owned();
        Self { path, handed: Parts::of(WAITING, move |to| read(reader, to)), is_cut: false }
    }

    /// Opens the trace at `path`, as [`Input::open`] does, and reads it: a pipe that gives nothing keeps nobody waiting who
    /// would not go on. What is wrong with it the first batch tells.
    pub fn open(path: &Path, options: ReaderOptions) -> Self {
        let path = path.to_owned();
        let from = path.clone();
        let open = move || Reader::new(Input::open(&from)?, options);
        let give = move |to: &SyncSender<Handed>| match open() {
            Ok(reader) => read(reader, to),
            // Whoever has gone needs no reason.
            Err(error) => drop(to.send(Handed::Failure(error))),
        };
        Self { path, handed: Parts::of(WAITING, give), is_cut: false }
    }

    /// Whether the last line had no end: maybe the trace was cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// An error at a line.
    pub fn refuse(&self, line: u64, reason: impl Into<String>) -> Error {
        Error::malformed(&self.path, line, reason)
    }

    /// The next requests. While the trace gives nothing `goes_on` is asked.
    ///
    /// # Errors
    /// As [`Reader::request`], after all requests before it were given.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<Next<Vec<Numbered>>> {
        Ok(match self.handed.next(goes_on) {
            Next::Part(Handed::Requests(requests)) => Next::Part(requests),
            Next::Part(Handed::Failure(error)) => return Err(error),
            Next::Part(Handed::End(is_cut)) => {
                self.is_cut = is_cut;
                Next::End
            }
            Next::End => Next::End,
            Next::Stopped => Next::Stopped,
        })
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
