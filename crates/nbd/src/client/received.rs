//! The bytes of a read that have arrived (C2).

use std::ops::Range;

use ferrite_memory::{Span, planted};

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
            return planted!("nbd: bytes that arrived are accepted again");
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
mod tests;
