//! A block trace that is read ahead, with the line of each request.

use std::path::{Path, PathBuf};

use super::{BlockRequest, BlockTraceReader, ReaderOptions};
use crate::read_ahead::{self, NextPart};
use crate::{Error, Result, TraceInput};

/// Requests of one batch.
const BATCH: usize = 4096;

/// A request and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedRequest {
    /// The request.
    pub request: BlockRequest,
    /// The line, counted from 1.
    pub line: u64,
}

/// A block trace that is read ahead, with its path.
pub struct BlockReadAhead {
    path: PathBuf,
    trace: read_ahead::ReadAhead<NumberedRequest>,
}

impl BlockReadAhead {
    /// Starts to read `reader` ahead.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn new(reader: BlockTraceReader) -> Result<Self> {
        Ok(Self {
            path: reader.path().to_owned(),
            trace: read_ahead::ReadAhead::of(|| Ok(reader), gather, BlockTraceReader::is_cut)?,
        })
    }

    /// Opens the trace at `path`, as [`TraceInput::open`] does, and reads it ahead: a silent pipe never blocks a caller
    /// that wants to stop. The first batch reports an error of opening.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn open(path: &Path, options: ReaderOptions) -> Result<Self> {
        let from = path.to_owned();
        let open = move || BlockTraceReader::new(TraceInput::open(&from)?, options);
        Ok(Self { path: path.into(), trace: read_ahead::ReadAhead::of(open, gather, BlockTraceReader::is_cut)? })
    }

    /// Returns true if the last line has no end, so the trace may be cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.trace.is_cut()
    }

    /// Returns an error at `line`.
    pub fn refuse(&self, line: u64, reason: impl Into<String>) -> Error {
        Error::malformed(&self.path, line, reason)
    }

    /// Waits for the next requests. While none arrive, `goes_on` says whether to wait on.
    ///
    /// # Errors
    /// The errors of [`BlockTraceReader::request`], reported after all requests before that place.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<NextPart<Vec<NumberedRequest>>> {
        self.trace.batch(goes_on)
    }
}

/// Adds up to [`BATCH`] requests. Returns true if more may follow.
fn gather(reader: &mut BlockTraceReader, into: &mut Vec<NumberedRequest>) -> Result<bool> {
    into.reserve_exact(BATCH);
    while into.len() < BATCH {
        let Some(request) = reader.request()? else { return Ok(false) };
        into.push(NumberedRequest { request, line: reader.line() });
    }
    Ok(true)
}
