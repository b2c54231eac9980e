//! Records of one size, read many at a time.

use std::io::{self, BufRead};

use crate::trace_input::CHUNK;
use crate::{Error, Result, TraceInput};

/// Reads the records of a trace.
pub struct RecordChunks {
    /// The trace.
    pub input: TraceInput,
    /// The current records, all whole.
    pub bytes: Vec<u8>,
    /// The number of records before the current ones.
    pub before: u64,
    record: usize,
    /// The error that follows the current records.
    failure: Option<Error>,
}

impl RecordChunks {
    /// Reads records of `record` bytes from the beginning of `input`.
    pub fn of(input: TraceInput, record: usize) -> Self {
        Self { input, bytes: Vec::new(), before: 0, record, failure: None }
    }

    /// Reads the next records into `bytes`. Returns true if more may follow.
    ///
    /// # Errors
    /// The input cannot be read, or ends within a record; reported after all records before that place.
    pub fn next(&mut self) -> Result<bool> {
        self.before += (self.bytes.len() / self.record) as u64;
        self.bytes.clear();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let wanted = CHUNK.next_multiple_of(self.record);
        self.bytes.resize(wanted, 0);
        let (filled, failed) = fill(&mut *self.input.bytes, &mut self.bytes);
        let (whole, rest) = (filled / self.record, filled % self.record);
        self.bytes.truncate(whole * self.record);
        let done = self.before + whole as u64;
        self.failure = match failed {
            Some(error) => Some(Error::reading(&self.input.path, done, error)),
            None if rest != 0 => {
                let reason = format!("{rest} bytes are left, and a record has {}", self.record);
                Some(Error::Truncated { file: self.input.path.clone(), line: done, reason })
            }
            None => None,
        };
        Ok(self.failure.is_some() || filled == wanted)
    }
}

/// Reads until `into` is full, or to the end, or to an error. Returns how much was read, and the error.
fn fill(from: &mut dyn BufRead, into: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}
