//! A writer of block traces in any of the formats.

use std::io::{self, Write};

use super::{BlockFormat, BlockRequest, RequestKind};
use crate::block_trace::line_fields::SECTOR_BYTES;

/// Writes a block trace.
pub struct BlockTraceWriter<W> {
    to: W,
    format: BlockFormat,
    page_bytes: u64,
    lines: u64,
}

impl<W: Write> BlockTraceWriter<W> {
    /// Starts a trace in `format` on `to`; `page_bytes` is the page size if the format counts in pages.
    ///
    /// # Errors
    /// The head cannot be written.
    pub fn new(mut to: W, format: BlockFormat, page_bytes: u32) -> io::Result<Self> {
        if format == BlockFormat::Iolog {
            writeln!(to, "fio version 3 iolog\n0 device add\n0 device open")?;
        }
        Ok(Self { to, format, page_bytes: page_bytes.into(), lines: 0 })
    }

    /// Writes `request`. A format without trims leaves a trim out. A format that counts in pages or sectors writes
    /// whole units: those that the request touches, or that a trim covers. Returns true if the request was written.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn request(&mut self, request: &BlockRequest) -> io::Result<bool> {
        let knows_trim = matches!(self.format, BlockFormat::Plain | BlockFormat::Blkparse | BlockFormat::Iolog);
        if request.kind == RequestKind::Trim && !knows_trim {
            return Ok(false);
        }
        let (first, count) =
            whole(request, if self.format == BlockFormat::Plain { self.page_bytes } else { SECTOR_BYTES });
        if request.kind == RequestKind::Trim && count == 0 && self.format != BlockFormat::Iolog {
            return Ok(false);
        }
        self.lines += 1;
        let BlockRequest { at_ns, kind, device, span } = *request;
        let to = &mut self.to;
        let letter = match kind {
            RequestKind::Read => 'R',
            RequestKind::Write => 'W',
            RequestKind::Trim if self.format == BlockFormat::Plain => 'T',
            RequestKind::Trim => 'D',
        };
        let (seconds, rest_ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        match self.format {
            BlockFormat::Plain => writeln!(to, "{letter} {first} {count}")?,
            BlockFormat::DiskSim => {
                let (ms, rest_ns) = (at_ns / 1_000_000, at_ns % 1_000_000);
                writeln!(to, "{ms}.{rest_ns:06} {device} {first} {count} {}", u8::from(kind == RequestKind::Read))?;
            }
            BlockFormat::Spc => {
                writeln!(to, "{device},{first},{},{letter},{seconds}.{rest_ns:09}", count * SECTOR_BYTES)?
            }
            BlockFormat::Msr => {
                let word = if kind == RequestKind::Read { "Read" } else { "Write" };
                writeln!(to, "{},host,{device},{word},{},{},0", at_ns / 100, span.at, span.len)?;
            }
            BlockFormat::Blkparse => writeln!(
                to,
                "{:>3},{:<3} 0 {:8} {seconds:5}.{rest_ns:09} 0  C {letter:>3} {first} + {count} [0]",
                device >> 20,
                device & ((1 << 20) - 1),
                self.lines
            )?,
            BlockFormat::Iolog => {
                let word = match kind {
                    RequestKind::Read => "read",
                    RequestKind::Write => "write",
                    RequestKind::Trim => "trim",
                };
                writeln!(to, "{} device {word} {} {}", at_ns / 1000, span.at, span.len)?;
            }
        }
        Ok(true)
    }

    /// Ends the trace and returns the output.
    ///
    /// # Errors
    /// The remaining bytes cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.format == BlockFormat::Iolog {
            writeln!(self.to, "0 device close")?;
        }
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Returns the first unit of `unit_bytes` that a request touches, or that a trim covers, and the number of units. A
/// request without bytes touches none.
fn whole(request: &BlockRequest, unit_bytes: u64) -> (u64, u64) {
    let (at, end) = (request.span.at, request.span.at + request.span.len);
    if request.kind == RequestKind::Trim {
        let first = at.div_ceil(unit_bytes);
        return (first, (end / unit_bytes).saturating_sub(first));
    }
    let first = at / unit_bytes;
    let count = if at == end { 0 } else { end.div_ceil(unit_bytes) - first };
    (first, count)
}
