//! Traces of block devices, as other tools write them, told apart by content.
//!
//! A reader gives one [`BlockRequest`] after another and never holds more than a line of the trace.

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

/// The device that people call `name`: a number, or a major and a minor one with a comma.
pub fn device(name: &str) -> Option<u32> {
    let number = line_fields::digits(name.as_bytes()).and_then(|number| u32::try_from(number).ok());
    number.or_else(|| blkparse::device(name.as_bytes()))
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes, or writes zeros.
    Write,
    /// Gives space back.
    Trim,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// When it came, in nanoseconds of the trace's own clock; 0 in traces without one.
    pub at_ns: u64,
    /// What it does.
    pub kind: RequestKind,
    /// The device: a number that the trace gives, or that of the file among those of the trace.
    pub device: u32,
    /// Which bytes.
    pub span: Span,
}
