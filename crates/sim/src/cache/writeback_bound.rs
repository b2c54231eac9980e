//! The fewest writebacks that any policy could have, even one that knows the future and may bypass the cache.
//!
//! Each write of the last level makes a line dirty, and in the end costs a writeback, unless the line is kept until its
//! next write. A set of W ways keeps at most W such intervals, from a write of a line to the next one, at any instant.
//! So the fewest writebacks are the writes less the most intervals of which at most W overlap. The most are kept by
//! taking the intervals as they end, and giving each to the way that has been free for the shortest time. One pass over
//! the trace suffices, because the end of an interval needs no knowledge of the future.

use super::BankGeometry;
use super::cache_event::CacheEvent;
use super::line_numbers::LineNumbers;

/// The bound for one bank.
pub struct WritebackBound {
    geometry: BankGeometry,
    writes: u64,
    kept: u64,
    /// For each set, the number of writes so far.
    clocks: Vec<u64>,
    /// For each set, the time when each way became free.
    free_since: Vec<u64>,
    /// The time of each line's last write, by the clock of its set, from 1; 0 if it was never written.
    last: LineNumbers<u64>,
}

impl WritebackBound {
    /// Returns the bound for no events.
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

    /// Applies events of the bank's sets, in their order.
    pub fn run(&mut self, events: &[CacheEvent]) {
        for event in events.iter().filter(|event| event.is_write()) {
            self.write(event.line());
        }
    }

    /// Returns the fewest writebacks for the events so far.
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
