//! Sources of the events of a last level.

use super::{AccessKind, AccessReader, MemoryAccess, PackedWord, PackedWords};
use crate::cache::{CacheEvent, CacheShape, L1};
use crate::{Result, host_memory};

/// A source of events for the last level.
pub trait EventSource: Send {
    /// Appends the next events to `into`. Returns true if more may follow.
    ///
    /// # Errors
    /// The trace or the recording is malformed. The events before that place are in `into`.
    fn read(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool>;

    /// Returns the number of accesses so far, before any filter.
    fn accesses(&self) -> u64;

    /// Returns the answer of [`AccessReader::is_cut`].
    fn is_cut(&self) -> bool {
        false
    }
}

/// A trace that passes through the first level of each core.
pub struct FirstLevelFilter {
    reader: Box<dyn AccessReader>,
    data: Vec<L1>,
    instructions: Vec<L1>,
    line_bits: u32,
    chunk: Vec<MemoryAccess>,
    accesses: u64,
}

/// The first-level caches.
#[derive(Clone, Copy, Debug)]
pub struct FirstLevel {
    /// The shape of each cache.
    pub shape: CacheShape,
    /// The number of cores; each has a cache of its own.
    pub cores: u16,
    /// True if each core has another cache of the same shape for instructions.
    pub instructions: bool,
}

impl FirstLevel {
    /// Refuses a shape that is not a cache, or does not fit in memory.
    ///
    /// # Errors
    /// The errors of [`CacheShape::sets`]; [`crate::Error::Model`].
    pub fn check(&self) -> Result<()> {
        let slots = u64::from(self.shape.sets()?) * u64::from(self.shape.ways) * (1 + u64::from(self.instructions));
        let bytes = slots * u64::from(self.cores.max(1)) * size_of::<u64>() as u64;
        host_memory::ensure(
            bytes,
            &format!("a first level of {} MiB for each of {} cores", self.shape.bytes >> 20, self.cores),
        )
    }
}

impl FirstLevelFilter {
    /// Passes the accesses of `reader` through `first`.
    ///
    /// # Errors
    /// The errors of [`FirstLevel::check`].
    pub fn new(reader: Box<dyn AccessReader>, first: FirstLevel) -> Result<Self> {
        first.check()?;
        let (sets, ways) = (first.shape.sets()? as usize, first.shape.ways as usize);
        let caches = |count: u16| (0..count).map(|_| L1::new(sets, ways)).collect();
        Ok(Self {
            reader,
            data: caches(first.cores.max(1)),
            instructions: caches(if first.instructions { first.cores.max(1) } else { 0 }),
            line_bits: first.shape.line_bytes.ilog2(),
            chunk: Vec::new(),
            accesses: 0,
        })
    }

    fn pass(&mut self, into: &mut Vec<CacheEvent>) {
        for access in &self.chunk {
            let core = usize::from(access.core) % self.data.len();
            let l1 = match access.kind {
                AccessKind::Fetch if self.instructions.is_empty() => continue,
                AccessKind::Fetch => &mut self.instructions[core],
                _ => &mut self.data[core],
            };
            self.accesses += 1;
            for line in access.lines(self.line_bits) {
                l1.access(
                    line,
                    access.kind == AccessKind::Write,
                    || access.signature,
                    |event| into.push(CacheEvent(event)),
                );
            }
        }
    }
}

/// Passes words without a [`MemoryAccess`] for each: the compact formats exist for speed.
fn pass_words(words: &PackedWords<'_>, data: &mut [L1], into: &mut Vec<CacheEvent>) {
    let cores = data.len();
    match data {
        [l1] => words.each(
            #[inline(always)]
            |word| pass_word(word, l1, into),
        ),
        _ => words.each(|word| pass_word(word, &mut data[usize::from(word.core) % cores], into)),
    }
}

#[inline(always)]
fn pass_word(word: PackedWord, l1: &mut L1, into: &mut Vec<CacheEvent>) {
    l1.access(word.line, word.is_write, || word.signature(), |event| into.push(CacheEvent(event)));
}

impl EventSource for FirstLevelFilter {
    fn read(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool> {
        let more = if let Some(words) = self.reader.words() {
            words.map(|words| {
                self.accesses += words.count() as u64;
                pass_words(&words, &mut self.data, into);
                words.more
            })
        } else {
            self.chunk.clear();
            let more = self.reader.read(&mut self.chunk);
            self.pass(into);
            more
        };
        if !matches!(more, Ok(true)) {
            self.data.iter_mut().for_each(|l1| l1.drain(|event| into.push(CacheEvent(event))));
        }
        more
    }

    fn accesses(&self) -> u64 {
        self.accesses
    }

    fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }
}

/// A trace whose accesses are events of the last level already.
pub struct FilteredTrace {
    reader: Box<dyn AccessReader>,
    line_bits: u32,
    chunk: Vec<MemoryAccess>,
    accesses: u64,
}

impl FilteredTrace {
    /// Returns the accesses of `reader` as events.
    pub fn new(reader: Box<dyn AccessReader>, line_bits: u32) -> Self {
        Self { reader, line_bits, chunk: Vec::new(), accesses: 0 }
    }
}

impl EventSource for FilteredTrace {
    fn read(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool> {
        if let Some(words) = self.reader.words() {
            let words = words?;
            self.accesses += words.count() as u64;
            words.each(|word| into.push(CacheEvent::new(word.line, word.is_write, word.signature())));
            return Ok(words.more);
        }
        self.chunk.clear();
        let more = self.reader.read(&mut self.chunk);
        for access in self.chunk.iter().filter(|access| access.kind != AccessKind::Fetch) {
            self.accesses += 1;
            let event = |line| CacheEvent::new(line, access.kind == AccessKind::Write, access.signature);
            into.extend(access.lines(self.line_bits).map(event));
        }
        more
    }

    fn accesses(&self) -> u64 {
        self.accesses
    }

    fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }
}
