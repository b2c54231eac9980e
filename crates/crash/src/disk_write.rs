//! Writes to a disk, and the parts of them that a crash keeps.

use std::collections::HashSet;

use ferrite_memory::Span;

use crate::pages::CowPages;
use crate::seed::Seed;

/// Bytes written at an offset.
#[derive(Clone)]
pub(crate) struct Write {
    pub at: u64,
    pub bytes: Vec<u8>,
}

impl Write {
    pub fn zeros(span: Span) -> Self {
        Self { at: span.at, bytes: vec![0; span.len as usize] }
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Returns the parts of the write by atomic unit of the disk.
    pub fn units(&self, atomic_bytes: u32) -> impl Iterator<Item = Span> + use<> {
        let (at, end, unit) = (self.at, self.end(), u64::from(atomic_bytes.max(1)));
        (at / unit..end.div_ceil(unit)).map(move |number| {
            let start = at.max(number * unit);
            Span::new(start, end.min((number + 1) * unit) - start)
        })
    }

    pub fn part(&self, span: Span) -> Self {
        let start = (span.at - self.at) as usize;
        Self { at: span.at, bytes: self.bytes[start..start + span.len as usize].to_vec() }
    }

    /// Takes over the bytes of `newer`, which are durable, so that this write does not bring older bytes back.
    pub fn cover(&mut self, newer: &Self) {
        let (start, end) = (self.at.max(newer.at), self.end().min(newer.end()));
        if start < end {
            let part = newer.part(Span::new(start, end - start));
            let start = (start - self.at) as usize;
            self.bytes[start..start + part.bytes.len()].copy_from_slice(&part.bytes);
        }
    }

    /// Copies the written bytes into `content`, the bytes of the disk from `at` on.
    pub fn lay_over(&self, at: u64, content: &mut [u8]) {
        let (start, end) = (self.at.max(at), self.end().min(at + content.len() as u64));
        if start < end {
            let part = self.part(Span::new(start, end - start));
            content[(start - at) as usize..(end - at) as usize].copy_from_slice(&part.bytes);
        }
    }
}

/// The units that a crash keeps: by whole writes or by single units, few, half or most of them.
pub(crate) struct Losing {
    seed: u64,
    by_write: bool,
    eighths: u64,
    atomic_bytes: u32,
    writes: u64,
    /// Units that lost a write, and with it all newer ones (CL1).
    lost: HashSet<u64>,
}

impl Losing {
    pub fn new(seed: &mut Seed, atomic_bytes: u32) -> Self {
        let (by_write, eighths) = (seed.below(2) == 0, [0, 1, 4, 7, 8][seed.below(5) as usize]);
        Self { seed: seed.bits(), by_write, eighths, atomic_bytes, writes: 0, lost: HashSet::new() }
    }

    /// Keeps every unit.
    pub fn keeping_all(atomic_bytes: u32) -> Self {
        Self { seed: 0, by_write: true, eighths: 8, atomic_bytes, writes: 0, lost: HashSet::new() }
    }

    pub fn land(&mut self, write: &Write, image: &mut CowPages) {
        let mut choices = Seed::of(self.seed, self.writes);
        let whole = choices.below(8) < self.eighths;
        self.writes += 1;
        for part in write.units(self.atomic_bytes) {
            let unit = part.at / u64::from(self.atomic_bytes.max(1));
            let lands = if self.by_write { whole } else { choices.below(8) < self.eighths };
            if !lands {
                self.lost.insert(unit);
            } else if !self.lost.contains(&unit) {
                image.write(part.at, &write.part(part).bytes);
            }
        }
    }
}
