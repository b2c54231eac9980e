//! Traces in lines of text.

use std::io::BufRead;

use super::{AccessKind, AccessReader, MemoryAccess};
use crate::{Error, Result, TraceInput};

/// The most bytes of a line. No format has longer lines, and a file without line ends belongs to no trace.
const LINE_BYTES_MAX: usize = 4096;

/// A reader of a trace's lines.
pub struct TextReader {
    input: TraceInput,
    parse: TextParser,
    line: Vec<u8>,
    done: u64,
    is_cut: bool,
}

/// The reason why a line is malformed, if it is.
pub type LineResult = std::result::Result<(), String>;

/// The parser of a format: appends the accesses of a line.
pub type TextParser = Box<dyn FnMut(&[u8], &mut Vec<MemoryAccess>) -> LineResult + Send>;

impl TextReader {
    /// Reads `input` from its beginning.
    pub fn new(input: TraceInput, parse: TextParser) -> Self {
        Self { input, parse, line: Vec::new(), done: 0, is_cut: false }
    }

    /// Reads the next line. Returns false at the end.
    fn next(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut *self.input.bytes, LINE_BYTES_MAX as u64);
        let read = limited.read_until(b'\n', &mut self.line);
        if read.map_err(|error| Error::reading(&self.input.path, self.done, error))? == 0 {
            return Ok(false);
        }
        let ended = self.line.ends_with(b"\n");
        if !ended && self.line.len() == LINE_BYTES_MAX {
            return Err(Error::malformed(&self.input.path, self.done + 1, "the line has no end"));
        }
        self.is_cut = !ended;
        match parse_line(&mut self.parse, &self.line, into) {
            Ok(()) => self.done += 1,
            Err(reason) if ended => return Err(Error::malformed(&self.input.path, self.done + 1, reason)),
            Err(reason) => {
                return Err(Error::Truncated { file: self.input.path.clone(), line: self.done, reason });
            }
        }
        Ok(true)
    }
}

/// Parses a line, with or without its end.
pub fn parse_line(parse: &mut TextParser, line: &[u8], into: &mut Vec<MemoryAccess>) -> LineResult {
    parse(line.trim_ascii_end(), into)
}

impl AccessReader for TextReader {
    fn read(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool> {
        for _ in 0..4096 {
            if !self.next(into)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Returns a parser for a format in which the accesses of an instruction follow its fetch.
pub fn after_fetches(parse: fn(&[u8], &mut Vec<MemoryAccess>) -> LineResult) -> TextParser {
    let mut last = None;
    Box::new(move |line, into| {
        let before = into.len();
        parse(line, into)?;
        for access in &mut into[before..] {
            if access.kind == AccessKind::Fetch {
                last = Some(access.signature);
            }
            access.signature = last.unwrap_or(access.signature);
        }
        Ok(())
    })
}

/// Parses a number of hexadecimal digits, with or without `0x`.
pub fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X")).unwrap_or(digits);
    number(digits, 16)
}

/// Parses a decimal number.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits, 10)
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    let mut sum = 0_u64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base)?;
        sum = sum.checked_mul(base.into())?.checked_add(digit.into())?;
    }
    (!digits.is_empty()).then_some(sum)
}

/// Returns the words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Quotes a line or word for a message; a long one is cut.
pub fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]))
}
