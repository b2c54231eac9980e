//! The lines of home writes that have to be flushed before the retired word moves (lane L4).

use ferrite_memory::Span;

const LINE: u64 = 64;
/// The number of recent lines that are remembered, so that they are not noted again.
const KNOWN: usize = 64;

/// The lines; a few are listed more than once. A line that hundreds of transactions change is listed once.
#[derive(Debug)]
pub struct HomeLines {
    lines: Vec<Span>,
    /// Numbers of lines. 0 means none, because line 0 is the superblock's.
    known: [u64; KNOWN],
}

impl Default for HomeLines {
    fn default() -> Self {
        Self { lines: Vec::new(), known: [0; KNOWN] }
    }
}

impl HomeLines {
    /// Notes that `span`, which lies in whole pages, was written.
    pub fn note(&mut self, span: Span) {
        for line in span.at / LINE..(span.at + span.len).div_ceil(LINE) {
            let known = &mut self.known[(line % KNOWN as u64) as usize];
            if *known == line {
                continue;
            }
            *known = line;
            match self.lines.last_mut() {
                Some(last) if last.at + last.len == line * LINE => last.len += LINE,
                _ => self.lines.push(Span::new(line * LINE, LINE)),
            }
        }
    }

    /// Returns all lines that were noted since the last call.
    pub fn take(&mut self) -> Vec<Span> {
        std::mem::take(self).lines
    }
}

#[cfg(test)]
mod tests;
