//! Traces of block devices, as other tools write them. The content of a trace decides its format.
//!
//! A reader returns one [`BlockRequest`] after another and never holds more than a line of the trace.

mod block_format;
mod block_read_ahead;
mod block_reader;
mod block_writer;
mod line_fields;
mod line_reader;
mod sniff;
#[cfg(test)]
mod tests;

mod blkparse;
mod disksim;
mod iolog;
mod msr;
mod plain;
mod spc;

use ferrite_memory::Span;

pub use block_format::BlockFormat;
pub use block_read_ahead::{BlockReadAhead, NumberedRequest};
pub use block_reader::{BlockTraceReader, ReaderOptions};
pub use block_writer::BlockTraceWriter;

/// Returns the number of the device that the user names: a number, or a major and a minor number with a comma.
pub fn device(name: &str) -> Option<u32> {
    let number = line_fields::digits(name.as_bytes()).and_then(|number| u32::try_from(number).ok());
    number.or_else(|| blkparse::device(name.as_bytes()))
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes, or writes zeros.
    Write,
    /// Frees space.
    Trim,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The time of its arrival, in nanoseconds of the trace's own clock; 0 in traces without a clock.
    pub at_ns: u64,
    /// The operation.
    pub kind: RequestKind,
    /// The device: the number that the trace gives, or the number of the file among the files of the trace.
    pub device: u32,
    /// The bytes that the request covers.
    pub span: Span,
}
