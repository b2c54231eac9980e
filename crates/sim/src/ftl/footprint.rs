//! The footprint of a block trace: the space that it needs on a drive.

use crate::block_trace::{BlockReadAhead, BlockRequest, RequestKind};
use crate::{Error, NextPart, Result};

/// The bytes that a trace touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The end of the last byte that is touched.
    pub end: u64,
    /// Bytes of all writes.
    pub written: u64,
    /// Bytes of the largest request.
    pub largest: u64,
    /// The number of requests.
    pub requests: u64,
}

impl Footprint {
    /// Reads all of `trace`; of a cut trace, the part that exists. `goes_on` is called every few thousand requests;
    /// when it returns false, the footprint so far is returned.
    ///
    /// # Errors
    /// A line is malformed.
    pub fn of(trace: &mut BlockReadAhead, goes_on: &mut dyn FnMut(Self) -> bool) -> Result<Self> {
        let mut all = Self::default();
        loop {
            match trace.batch(&mut || goes_on(all)) {
                Ok(NextPart::Part(requests)) => requests.iter().for_each(|numbered| all.add(numbered.request)),
                Ok(NextPart::End | NextPart::Stopped) | Err(Error::Truncated { .. }) => return Ok(all),
                Err(error) => return Err(error),
            }
            if !goes_on(all) {
                return Ok(all);
            }
        }
    }

    /// Returns the footprint of a drive that holds this trace and another.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            end: self.end.max(other.end),
            written: self.written.max(other.written),
            largest: self.largest.max(other.largest),
            requests: self.requests + other.requests,
        }
    }

    fn add(&mut self, BlockRequest { kind, span, .. }: BlockRequest) {
        self.requests += 1;
        if span.len > 0 {
            self.end = self.end.max(span.at.saturating_add(span.len));
        }
        self.largest = self.largest.max(span.len);
        if kind == RequestKind::Write {
            self.written = self.written.saturating_add(span.len);
        }
    }
}
