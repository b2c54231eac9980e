//! A trace that is read ahead, with the lines of its requests.

use std::path::{Path, PathBuf};

use super::{BlockRequest, BlockTraceReader, ReaderOptions};
use crate::read_ahead::{self, NextPart};
use crate::{Error, Result, TraceInput};

/// Requests handed over at once.
const BATCH: usize = 4096;

/// A request, and the line it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedRequest {
    /// What is asked.
    pub request: BlockRequest,
    /// Counted from 1.
    pub line: u64,
}

/// A trace that is read ahead, by its path.
pub struct BlockReadAhead {
    path: PathBuf,
    trace: read_ahead::ReadAhead<NumberedRequest>,
}

impl BlockReadAhead {
    /// Reads `reader` from now on.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(reader: BlockTraceReader) -> Result<Self> {
        Ok(Self {
            path: reader.path().to_owned(),
            trace: read_ahead::ReadAhead::of(|| Ok(reader), gather, BlockTraceReader::is_cut)?,
        })
    }

    /// Opens the trace at `path`, as [`TraceInput::open`] does, and reads it: a pipe that gives nothing keeps nobody waiting who
    /// would not go on. What is wrong with it the first batch tells.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(path: &Path, options: ReaderOptions) -> Result<Self> {
        let from = path.to_owned();
        let open = move || BlockTraceReader::new(TraceInput::open(&from)?, options);
        Ok(Self { path: path.into(), trace: read_ahead::ReadAhead::of(open, gather, BlockTraceReader::is_cut)? })
    }

    /// Whether the last line had no end: maybe the trace was cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.trace.is_cut()
    }

    /// An error at a line.
    pub fn refuse(&self, line: u64, reason: impl Into<String>) -> Error {
        Error::malformed(&self.path, line, reason)
    }

    /// The next requests. While the trace gives nothing `goes_on` is asked.
    ///
    /// # Errors
    /// As [`BlockTraceReader::request`], after all requests before it were given.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<NextPart<Vec<NumberedRequest>>> {
        self.trace.batch(goes_on)
    }
}

/// Up to [`BATCH`] requests; whether there may be more.
fn gather(reader: &mut BlockTraceReader, into: &mut Vec<NumberedRequest>) -> Result<bool> {
    into.reserve_exact(BATCH);
    while into.len() < BATCH {
        let Some(request) = reader.request()? else { return Ok(false) };
        into.push(NumberedRequest { request, line: reader.line() });
    }
    Ok(true)
}
