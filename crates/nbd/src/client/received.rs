//! The bytes of a read that have arrived (C2).

use std::ops::Range;

use ferrite_memory::Span;

/// Most ranges that may arrive separately. Servers answer in order, or nearly so.
const APART_MAX: usize = 1024;

/// The bytes of a read that have arrived, each once.
#[derive(Debug)]
pub(super) struct Received {
    /// All bytes before this offset have arrived.
    front: u64,
    /// The later ranges that have arrived, in order; no range begins where another one ends.
    apart: Vec<Range<u64>>,
}

impl Received {
    /// Creates the record of a read that begins at `start`; no byte has arrived.
    pub fn new(start: u64) -> Self {
        Self { front: start, apart: Vec::new() }
    }

    /// Records the arrival of the bytes of `span`, whose end does not overflow. Returns false if some of them have
    /// arrived before.
    pub fn add(&mut self, span: Span) -> bool {
        let (start, end) = (span.at, span.at + span.len);
        let index = self.apart.partition_point(|range| range.start < start);
        let before = if index > 0 { self.apart[index - 1].end } else { self.front };
        let behind = self.apart.get(index).map_or(u64::MAX, |range| range.start);
        if start < before || end > behind {
            #[cfg(test)]
            if tests::PLANTED.get() {
                return true;
            }
            return false;
        }
        let end = if end == behind { self.apart.remove(index).end } else { end };
        if start > before {
            self.apart.insert(index, start..end);
        } else if index > 0 {
            self.apart[index - 1].end = end;
        } else {
            self.front = end;
        }
        self.apart.len() <= APART_MAX
    }

    /// Returns true if all bytes before `end` have arrived.
    pub fn reaches(&self, end: u64) -> bool {
        self.front >= end
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    // True if the planted bug is active: bytes that have arrived are accepted again (C2).
    thread_local!(pub(super) static PLANTED: Cell<bool> = const { Cell::new(false) });

    /// Returns true if each byte is accepted once. Four parts arrive in every order, and then each part again, or a
    /// part that overlaps two.
    fn every_byte_comes_once() -> bool {
        (0..256_u64).all(|order| {
            let (mut received, mut come) = (Received::new(100), [false; 4]);
            let comes_once = (0..4).map(|turn| order >> (2 * turn) & 3).all(|part| {
                let is_new = !std::mem::replace(&mut come[part as usize], true);
                let fits = received.add(Span::new(100 + part * 10, 10));
                fits == is_new && (part == 3 || !received.add(Span::new(105 + part * 10, 10)))
            });
            comes_once && received.reaches(140) == (come == [true; 4])
        })
    }

    #[test]
    fn c2_every_byte_comes_once_in_whatever_order() {
        assert!(every_byte_comes_once());
    }

    #[test]
    fn canary_bytes_that_come_twice_are_found() {
        PLANTED.set(true);
        let comes_once = every_byte_comes_once();
        PLANTED.set(false);
        assert!(!comes_once);
    }

    #[test]
    fn what_comes_in_too_many_pieces_is_refused() {
        let mut received = Received::new(0);
        let count = (1..).take_while(|piece| received.add(Span::new(piece * 2, 1))).count();
        assert_eq!(count, APART_MAX);
    }
}
