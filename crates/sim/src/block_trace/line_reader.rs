//! The lines of a block trace, one by one.

use std::io::{self, BufRead};

/// The most bytes of a line. A longer line belongs to no trace, and a file without line ends must not fill the memory.
const LONGEST: usize = 64 << 10;

/// A line, without its end.
pub(super) struct ReadLine<'a> {
    pub(super) text: &'a [u8],
    /// True if the trace ends before the line does.
    pub(super) is_cut: bool,
}

pub(super) struct LineReader {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Bytes of the input's buffer that the last line occupies.
    taken: usize,
}

impl LineReader {
    pub(super) fn new(input: Box<dyn BufRead + Send>) -> Self {
        Self { input, line: Vec::new(), taken: 0 }
    }

    /// Returns the next line, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<ReadLine<'_>>> {
        self.input.consume(std::mem::take(&mut self.taken));
        let whole = self.input.fill_buf()?.iter().position(|byte| *byte == b'\n');
        match whole {
            Some(end) => {
                self.taken = end + 1;
                // The same bytes as before: nothing was consumed.
                Ok(Some(ReadLine { text: &self.input.fill_buf()?[..end], is_cut: false }))
            }
            None => self.gather(),
        }
    }

    /// Reads a line that does not lie in one piece in the buffer.
    fn gather(&mut self) -> io::Result<Option<ReadLine<'_>>> {
        self.line.clear();
        let limited = &mut io::Read::take(&mut self.input, LONGEST as u64);
        limited.read_until(b'\n', &mut self.line)?;
        let is_cut = self.line.last() != Some(&b'\n');
        if is_cut && self.line.len() == LONGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("a line has more than {LONGEST} bytes")));
        }
        if !is_cut {
            self.line.pop();
        }
        Ok((!self.line.is_empty() || !is_cut).then_some(ReadLine { text: &self.line, is_cut }))
    }
}
