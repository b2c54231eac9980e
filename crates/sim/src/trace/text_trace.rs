//! Traces in lines of text.

use std::io::BufRead;

use super::{AccessKind, AccessReader, MemoryAccess};
use crate::{Error, Result, TraceInput};

/// Bytes of a line at most: nobody's are longer, and a file without line ends is no trace.
const LINE_BYTES_MAX: usize = 4096;

/// Lines of a trace.
pub struct TextReader {
    input: TraceInput,
    parse: TextParser,
    line: Vec<u8>,
    done: u64,
    is_cut: bool,
}

/// Why a line is not understood.
pub type LineResult = std::result::Result<(), String>;

/// The grammar of a form: adds what a line says.
pub type TextParser = Box<dyn FnMut(&[u8], &mut Vec<MemoryAccess>) -> LineResult + Send>;

impl TextReader {
    /// None read yet.
    pub fn new(input: TraceInput, parse: TextParser) -> Self {
        Self { input, parse, line: Vec::new(), done: 0, is_cut: false }
    }

    /// Whether there was one.
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

/// Parses a line, with its end or without.
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

/// A parser of a form in which what an instruction accesses follows its fetch.
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

/// A number of hexadecimal digits, with or without `0x`.
pub fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X")).unwrap_or(digits);
    number(digits, 16)
}

/// A decimal number.
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

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// What a message shows of a line or word.
pub fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]))
}
