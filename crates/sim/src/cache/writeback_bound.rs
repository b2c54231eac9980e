//! The fewest writebacks that any policy could have, even one that sees the future and may bypass the cache.
//!
//! Each write of the last level makes a line dirty, and in the end costs a writeback, unless the line is kept until it
//! is written again. A set of W ways keeps at most W such intervals, from a write of a line to the next one, at any
//! instant; so the fewest writebacks are the writes less the most intervals of which at most W overlap. Taking the
//! intervals as they end, and giving each to the way that has been free for the shortest time, keeps the most: what is
//! known when an interval ends is enough, and one pass over the trace will do.

use super::BankGeometry;
use super::cache_event::CacheEvent;
use super::line_numbers::LineNumbers;

/// The bound for one bank.
pub struct WritebackBound {
    geometry: BankGeometry,
    writes: u64,
    kept: u64,
    /// For each set, how many writes it has seen.
    clocks: Vec<u64>,
    /// For each set, when each way became free.
    free_since: Vec<u64>,
    /// When each line was last written, by the clock of its set, from 1.
    last: LineNumbers<u64>,
}

impl WritebackBound {
    /// Of no events.
    pub fn new(geometry: BankGeometry) -> Self {
        let sets = geometry.bank_sets() as usize;
        Self {
            geometry,
            writes: 0,
            kept: 0,
            clocks: vec![0; sets],
            free_since: vec![0; sets * geometry.ways as usize],
            last: LineNumbers::new(geometry.bank_bits),
        }
    }

    /// Takes events of its sets, in their order.
    pub fn run(&mut self, events: &[CacheEvent]) {
        for event in events.iter().filter(|event| event.is_write()) {
            self.write(event.line());
        }
    }

    /// The fewest writebacks for what it has seen.
    pub fn writebacks(&self) -> u64 {
        self.writes - self.kept
    }

    fn write(&mut self, line: u64) {
        let set = self.geometry.set_in_bank(line);
        self.writes += 1;
        self.clocks[set] += 1;
        let now = self.clocks[set];
        let began = std::mem::replace(self.last.of(line), now);
        if began == 0 {
            return;
        }
        let ways = self.geometry.ways as usize;
        let ready = self.free_since[set * ways..(set + 1) * ways].iter_mut().filter(|since| **since <= began);
        if let Some(way) = ready.max_by_key(|since| **since) {
            *way = now;
            self.kept += 1;
        }
    }
}
