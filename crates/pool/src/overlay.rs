//! A memory with changes that are not written: for recovery before it writes, and for a check, which writes nothing.

use std::collections::BTreeMap;
use std::ops::Deref;

use ferrite_memory::{Memory, Result as MediumResult, Scheme, Span, forward_memory};
use parking_lot::Mutex;

const LINE: u64 = 64;

/// A memory with changes that stay in DRAM.
pub struct MemoryOverlay<M> {
    memory: M,
    /// Changed lines by the offset of their first byte.
    lines: Mutex<BTreeMap<u64, [u8; LINE as usize]>>,
}

impl<M: Deref<Target: Memory>> MemoryOverlay<M> {
    /// Returns an overlay of `memory` without changes.
    pub fn new(memory: M) -> Self {
        Self { memory, lines: Mutex::default() }
    }

    /// Changes the bytes of `span` line by line. `fill` gets the offset of each piece in the span, and the piece.
    fn change(&self, span: Span, fill: impl Fn(usize, &mut [u8])) {
        let (mut lines, end, mut at) = (self.lines.lock(), span.at + span.len, span.at);
        while at < end {
            let line = lines.entry(at / LINE * LINE).or_insert_with_key(|first| {
                let mut line = [0; LINE as usize];
                self.memory.load(*first, &mut line[..LINE.min(self.memory.size() - first) as usize]);
                line
            });
            let piece = at % LINE..(at % LINE + end - at).min(LINE);
            fill((at - span.at) as usize, &mut line[piece.start as usize..piece.end as usize]);
            at += piece.end - piece.start;
        }
    }
}

impl<M: Deref<Target: Memory> + Send + Sync> Memory for MemoryOverlay<M> {
    forward_memory!(self => self.memory; size, survival);

    fn fence_is_durable(&self) -> bool {
        true
    }

    fn load(&self, at: u64, into: &mut [u8]) {
        self.memory.load(at, into);
        let (lines, end) = (self.lines.lock(), at + into.len() as u64);
        for (first, line) in lines.range(at / LINE * LINE..end) {
            let (from, to) = ((*first).max(at), (first + LINE).min(end));
            into[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&line[(from - first) as usize..(to - first) as usize]);
        }
    }

    fn store(&self, at: u64, from: &[u8], _how: Scheme) {
        self.change(Span::new(at, from.len() as u64), |done, piece| {
            piece.copy_from_slice(&from[done..done + piece.len()])
        });
    }

    fn zero(&self, span: Span, _how: Scheme) {
        self.change(span, |_, piece| piece.fill(0));
    }

    fn load_word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn store_word(&self, at: u64, value: u64) {
        self.store(at, &value.to_le_bytes(), Scheme::Flush);
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        pieces.iter().for_each(|(at, from)| self.store(*at, from, Scheme::Flush));
    }

    fn flush(&self, _span: Span) {}

    fn fence(&self) {}

    fn barrier(&self) -> MediumResult<()> {
        Ok(())
    }
}
