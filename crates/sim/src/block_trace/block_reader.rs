//! A block trace, request by request.

use std::io;
use std::path::{Path, PathBuf};

use super::block_format::{BlockFormat, BlockLineParser};
use super::line_reader::LineReader;
use super::{BlockRequest, sniff};
use crate::{Error, Result, TraceInput};

/// Bytes that are examined to detect the format.
const SNIFFED_BYTES: usize = 64 << 10;

/// The options of reading a block trace.
#[derive(Clone, Copy, Debug)]
pub struct ReaderOptions {
    /// Bytes of a page, in which plain traces count.
    pub page_bytes: u32,
    /// The format, or `None` to detect it by content.
    pub format: Option<BlockFormat>,
    /// The only device whose requests are read. Without it, a trace of several devices is refused, because their
    /// addresses overlap.
    pub device: Option<u32>,
}

/// The reader of a block trace.
pub struct BlockTraceReader {
    path: PathBuf,
    lines: LineReader,
    parser: BlockLineParser,
    wanted: Option<u32>,
    seen: Option<u32>,
    /// Lines read.
    line: u64,
    is_cut: bool,
}

impl BlockTraceReader {
    /// Reads `input`; if the options name no format, the content decides.
    ///
    /// # Errors
    /// The trace has no known format, or cannot be read.
    pub fn new(mut input: TraceInput, options: ReaderOptions) -> Result<Self> {
        input.skip_mark()?;
        let begin = input.peek(SNIFFED_BYTES)?;
        if begin.trim_ascii().is_empty() {
            return Err(Error::empty(&input.path));
        }
        let is_whole = begin.len() < SNIFFED_BYTES;
        let detect = || sniff::format(&input.path, &begin, is_whole, options.page_bytes.into());
        let format = options.format.map_or_else(detect, Ok)?;
        let parser = sniff::parser(format, &begin, options.page_bytes.into());
        let lines = LineReader::new(input.bytes);
        Ok(Self { path: input.path, lines, parser, wanted: options.device, seen: None, line: 0, is_cut: false })
    }

    /// Returns the path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format.
    pub fn format(&self) -> BlockFormat {
        self.parser.format()
    }

    /// Returns the number of lines read so far.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns true if the last line has no end, so the trace may be cut there.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns an error at the last line that was read.
    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::malformed(&self.path, self.line, reason)
    }

    /// Returns the next request, or `None` at the end.
    ///
    /// # Errors
    /// A line is malformed, or the trace ends inside a line.
    pub fn request(&mut self) -> Result<Option<BlockRequest>> {
        loop {
            let next = match self.lines.next() {
                Ok(next) => next,
                Err(error) => return Err(unreadable(&self.path, self.line, error)),
            };
            let Some(line) = next else { return Ok(None) };
            self.line += 1;
            self.is_cut = line.is_cut;
            match self.parser.line(line.text) {
                Ok(None) => {}
                Ok(Some(request)) => {
                    if self.is_wanted(request)? {
                        return Ok(Some(request));
                    }
                }
                Err(reason) if line.is_cut => {
                    let line = self.line - 1;
                    return Err(Error::Truncated { file: self.path.clone(), line, reason });
                }
                Err(reason) => return Err(self.refuse(reason)),
            }
        }
    }

    fn is_wanted(&mut self, BlockRequest { device, .. }: BlockRequest) -> Result<bool> {
        if let Some(wanted) = self.wanted {
            return Ok(device == wanted);
        }
        let seen = *self.seen.get_or_insert(device);
        if seen == device {
            return Ok(true);
        }
        let (device, number) = (self.parser.device_name(device), self.parser.device_number(seen));
        let seen = self.parser.device_name(seen);
        Err(self
            .refuse(format!("requests of device {device} after those of {seen}: choose one, as by --device {number}")))
    }
}

fn unreadable(path: &Path, line: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Error::malformed(path, line + 1, error.to_string()),
        _ => Error::reading(path, line, error),
    }
}
