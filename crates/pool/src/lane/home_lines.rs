//! Lines of home writes that are to be flushed before the retired word moves (lane L4).

use ferrite_memory::Span;

const LINE: u64 = 64;
/// Lines of which it is known that they were noted.
const KNOWN: usize = 64;

/// The lines, a few of them more than once. What every transaction of a directory changes is there once for hundreds.
#[derive(Debug)]
pub struct HomeLines {
    lines: Vec<Span>,
    /// Numbers of lines. None is 0, which is the superblock's.
    known: [u64; KNOWN],
}

impl Default for HomeLines {
    fn default() -> Self {
        Self { lines: Vec::new(), known: [0; KNOWN] }
    }
}

impl HomeLines {
    /// `span`, which lies in whole pages, was written to.
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

    /// All that was noted since it was taken last.
    pub fn take(&mut self) -> Vec<Span> {
        std::mem::take(self).lines
    }
}

#[cfg(test)]
mod tests;
