//! The ring of a log, which maps positions to bytes of the pool. A record may continue at the ring's start, and across
//! two extents.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Memory, Scheme, Span};

use super::log_head::SESSION;
use crate::checked_record::{self, ALIGN, CheckedRecord};
use crate::extent::Stream;

/// A position, and the contiguous bytes of the pool from there on, where the next record is nearly always stored.
#[derive(Clone, Copy, Debug)]
pub struct LogCursor {
    position: u64,
    run: Span,
}

impl Default for LogCursor {
    /// Returns the cursor of no position.
    fn default() -> Self {
        Self { position: u64::MAX, run: Span::new(0, 0) }
    }
}

/// A ring of lines of 64 bytes.
#[derive(Debug)]
pub struct LogRing {
    stream: Stream,
    lines: u64,
    salt: u32,
    /// The position at the ring's start in the lap that is being stored. It saves a division.
    lap: AtomicU64,
}

impl LogRing {
    /// Returns the ring in the first `bytes` bytes of `stream`, a multiple of a line.
    pub fn new(stream: Stream, bytes: u64, salt: u32) -> Self {
        Self { stream, lines: bytes / ALIGN as u64, salt, lap: AtomicU64::new(0) }
    }

    /// Returns the line of the ring for `position`.
    #[inline]
    fn line(&self, position: u64) -> u64 {
        let line = position.wrapping_sub(self.lap.load(Ordering::Relaxed));
        if line < self.lines {
            return line;
        }
        let line = position % self.lines;
        self.lap.store(position - line, Ordering::Relaxed);
        line
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the start of the records' checksums.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// Returns the number of lines that a record with `payload_bytes` of payload takes.
    pub fn lines_for(payload_bytes: usize) -> u64 {
        (checked_record::footprint(payload_bytes) / ALIGN) as u64
    }

    /// Returns the byte of the pool for `position`.
    pub fn place(&self, position: u64) -> u64 {
        self.runs(position, ALIGN as u64).next().map_or(0, |run| run.at)
    }

    /// Stores whole lines from `position` on, past the cache, and moves `cursor` behind them.
    #[inline]
    pub fn store_on(&self, memory: &dyn Memory, cursor: &mut LogCursor, position: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        if cursor.position != position || cursor.run.len < len {
            let run = self.runs(position, self.lines * ALIGN as u64).next().unwrap_or(Span::new(0, 0));
            *cursor = LogCursor { position, run };
        }
        match cursor.run.len.checked_sub(len) {
            Some(left) => {
                memory.store(cursor.run.at, bytes, Scheme::Nt);
                *cursor =
                    LogCursor { position: position + len / ALIGN as u64, run: Span::new(cursor.run.at + len, left) };
            }
            None => self.store_in_pieces(memory, position, bytes, Scheme::Nt),
        }
    }

    /// Stores whole lines from `position` on, by `how`.
    #[inline]
    pub fn store_by(&self, memory: &dyn Memory, position: u64, bytes: &[u8], how: Scheme) {
        // The lines are nearly always contiguous.
        let (at, len) = (self.line(position) * ALIGN as u64, bytes.len() as u64);
        match self.stream.locate(at) {
            Some(run) if run.len >= len && at + len <= self.lines * ALIGN as u64 => memory.store(run.at, bytes, how),
            _ => self.store_in_pieces(memory, position, bytes, how),
        }
    }

    #[cold]
    fn store_in_pieces(&self, memory: &dyn Memory, position: u64, bytes: &[u8], how: Scheme) {
        let mut done = 0;
        for run in self.runs(position, bytes.len() as u64) {
            memory.store(run.at, &bytes[done..done + run.len as usize], how);
            done += run.len as usize;
        }
    }

    /// Starts the write-back of the lines of `positions`, which are at most one lap.
    pub fn flush(&self, memory: &dyn Memory, positions: Range<u64>) {
        let len = (positions.end - positions.start) * ALIGN as u64;
        self.runs(positions.start, len).for_each(|run| memory.flush(run));
    }

    /// Returns the record at `position` if it verifies there (W1) and takes at most `lines` lines.
    pub fn record(&self, memory: &dyn Memory, position: u64, lines: u64) -> Option<CheckedRecord> {
        CheckedRecord::parse(self.salt, &self.candidate(memory, position, lines)?)
    }

    /// Returns the record as [`LogRing::record`] does, and its session.
    pub fn read(&self, memory: &dyn Memory, position: u64, lines: u64) -> Option<(CheckedRecord, u64)> {
        let record = self.record(memory, position, lines)?;
        let session = u64::from_le_bytes(*record.payload.first_chunk::<SESSION>()?);
        Some((record, session))
    }

    /// Returns the end of a log that begins at `head` (W1), and the session of its last record.
    pub fn find_end(&self, memory: &dyn Memory, head: u64) -> (u64, u64) {
        let (mut tail, mut session) = (head, 0);
        while let Some((record, of)) = self.read(memory, tail, head + self.lines - tail)
            && of >= session
        {
            session = of;
            tail += Self::lines_for(record.payload.len());
        }
        (tail, session)
    }

    /// Returns the positions, among `positions` of at most one lap, that have the sequence of a record's start. Reads one word of
    /// each line, so that a search of the whole ring costs no more than reading it.
    pub fn starts(&self, memory: &dyn Memory, positions: Range<u64>) -> impl Iterator<Item = u64> {
        let runs = self.runs(positions.start, (positions.end - positions.start) * ALIGN as u64);
        let lines = runs.flat_map(|run| (run.at..run.at + run.len).step_by(ALIGN));
        let has_sequence =
            |(at, position): &(u64, u64)| memory.load_word(at + checked_record::SEQUENCE_AT) == position + 1;
        lines.zip(positions).filter(has_sequence).map(|(_, position)| position)
    }

    /// Returns the stored bytes of the record at `position`, padding included, if it verifies.
    pub fn bytes(&self, memory: &dyn Memory, position: u64, lines: u64) -> Option<Vec<u8>> {
        let bytes = self.candidate(memory, position, lines)?;
        CheckedRecord::parse(self.salt, &bytes).map(|_| bytes)
    }

    /// Returns the bytes of the record at `position` as long as its header says, without verifying them.
    fn candidate(&self, memory: &dyn Memory, position: u64, lines: u64) -> Option<Vec<u8>> {
        if lines == 0 {
            return None;
        }
        let (_, payload_bytes, sequence) = checked_record::header(&self.load(memory, position, ALIGN as u64))?;
        let needed = Self::lines_for(payload_bytes);
        let fits = sequence == position + 1 && needed <= lines;
        fits.then(|| self.load(memory, position, needed * ALIGN as u64))
    }

    fn load(&self, memory: &dyn Memory, position: u64, len: u64) -> Vec<u8> {
        let (mut bytes, mut done) = (vec![0; len as usize], 0);
        for run in self.runs(position, len) {
            memory.load(run.at, &mut bytes[done..done + run.len as usize]);
            done += run.len as usize;
        }
        bytes
    }

    /// Returns the bytes of the pool for `len` bytes from `position` on, at most one lap.
    fn runs(&self, position: u64, len: u64) -> impl Iterator<Item = Span> {
        let (at, size) = (self.line(position) * ALIGN as u64, self.lines * ALIGN as u64);
        let first = Span::new(at, len.min(size - at));
        let second = Span::new(0, len - first.len);
        self.stream.runs(first).chain(self.stream.runs(second))
    }
}
