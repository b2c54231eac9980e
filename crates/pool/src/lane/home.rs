//! Lines of home writes that are to be flushed before the retired word moves (lane L4).

use ferrite_memory::Span;

const LINE: u64 = 64;
/// Lines of which it is known that they were noted.
const KNOWN: usize = 64;

/// The lines, a few of them more than once. What every transaction of a directory changes is there once for hundreds.
#[derive(Debug)]
pub struct Home {
    lines: Vec<Span>,
    /// Numbers of lines. None is 0, which is the superblock's.
    known: [u64; KNOWN],
}

impl Default for Home {
    fn default() -> Self {
        Self { lines: Vec::new(), known: [0; KNOWN] }
    }
}

impl Home {
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
mod tests {
    use super::*;

    /// L4: each line with a byte of what was noted is there, and none else.
    #[test]
    fn l4_every_line_is_kept() {
        let mut home = Home::default();
        let spans = [(64, 8), (4096 - 8, 16), (64 * 65, 64), (128, 192), (64, 8), (64 * 65 + 8, 8), (64, 64)];
        for _ in 0..2 {
            spans.into_iter().for_each(|(at, len)| home.note(Span::new(at, len)));
            let mut lines: Vec<u64> =
                home.take().iter().flat_map(|span| (span.at..span.at + span.len).step_by(64)).collect();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines, [64, 128, 192, 256, 4032, 4096, 4160]);
        }
        assert_eq!(home.take(), []);
    }

    #[test]
    fn what_is_written_again_and_again_is_flushed_once() {
        let mut home = Home::default();
        (0..100).for_each(|_| home.note(Span::new(8192, 64)));
        assert_eq!(home.take(), [Span::new(8192, 64)]);
    }
}
