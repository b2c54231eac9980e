//! Our own form: a word of 8 bytes for each access, little-endian, `line << 1 | write`; where there are several cores
//! the top byte names the one, in the place of ones or zeros that every address has there. Usually within zstd. A line
//! beyond 2^64 bytes does not exist, and a word of one is wrong.

use std::io::Write;

use super::champsim::chunk;
use super::{Access, Kind, Reader, Reading, Words};
use crate::{Error, Input, Result};

/// Where the core stands.
const CORE_SHIFT: u32 = 56;

/// What is left beside it.
const BESIDE: u64 = (1 << CORE_SHIFT) - 1;

/// Words of a trace.
pub struct Packed {
    input: Input,
    reading: Reading,
    done: u64,
    chunk: Vec<u8>,
    /// What is wrong with the word behind those that were given.
    wrong: Option<Error>,
}

impl Packed {
    /// None read yet.
    pub fn new(input: Input, reading: Reading) -> Self {
        Self { input, reading, done: 0, chunk: Vec::new(), wrong: None }
    }

    fn next(&mut self) -> Result<Words<'_>> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let mut more = chunk(&mut self.input, &mut self.chunk, self.done, 8)?;
        let Reading { cores, line_bits, .. } = self.reading;
        let line = |bytes| split(word(bytes), cores, line_bits).1 >> 1;
        let is_beyond = |line: u64| line >> (64 - line_bits) != 0;
        let all = self.chunk.chunks_exact(8).fold(0, |all, word| all | line(word));
        if is_beyond(all) {
            let wrong = self.chunk.chunks_exact(8).position(|word| is_beyond(line(word))).expect("one of them is");
            let reason = format!("line {} is beyond all memory", line(&self.chunk[wrong * 8..][..8]));
            self.wrong = Some(Error::malformed(&self.input.path, self.done + wrong as u64 + 1, reason));
            self.chunk.truncate(wrong * 8);
            more = true;
        }
        self.done += self.chunk.len() as u64 / 8;
        Ok(Words { bytes: &self.chunk, cores, line_bits, more })
    }
}

impl Reader for Packed {
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool> {
        let line_bits = self.reading.line_bits;
        let words = self.next()?;
        into.extend(words.iter().map(|(core, line, is_write)| {
            let kind = if is_write { Kind::Write } else { Kind::Read };
            Access { core, ..Access::new(kind, line << line_bits, 1) }
        }));
        Ok(words.more)
    }

    fn words(&mut self) -> Option<Result<Words<'_>>> {
        Some(self.next())
    }
}

/// The word in eight bytes.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// The core of a word, where there are several, and the rest, with the ones of a kernel's address that the core replaced.
#[inline]
pub(super) fn split(word: u64, cores: u16, line_bits: u32) -> (u16, u64) {
    if cores <= 1 {
        return (0, word);
    }
    let begins_with_ones = word >> (CORE_SHIFT - 1) & 1 != 0;
    let replaced = if begins_with_ones { u64::MAX >> line_bits << 1 & !BESIDE } else { 0 };
    ((word >> CORE_SHIFT) as u16 % cores, word & BESIDE | replaced)
}

/// The words of an access: one for each line that it touches. The core is kept where there are several.
pub fn pack(access: &Access, reading: &Reading, mut push: impl FnMut(u64)) {
    let (core, kept) = if reading.cores > 1 { (u64::from(access.core) << CORE_SHIFT, BESIDE) } else { (0, u64::MAX) };
    for line in access.lines(reading.line_bits) {
        push(core | line << 1 & kept | u64::from(access.kind == Kind::Write));
    }
}

/// Bytes written at once.
const CHUNK: usize = 1 << 18;

/// zstd's own default: its higher levels gain little here and cost much.
const LEVEL: i32 = 3;

/// Writes the compact form, within zstd.
pub struct Writer<W: Write> {
    zstd: zstd::Encoder<'static, W>,
    chunk: Vec<u8>,
    what: String,
}

impl<W: Write> Writer<W> {
    /// Onto `to`, which messages call `name`.
    ///
    /// # Errors
    /// When the compressor cannot be made.
    pub fn new(to: W, name: &str) -> Result<Self> {
        let what = format!("writing {name}");
        let zstd = zstd::Encoder::new(to, LEVEL).map_err(Error::io(what.clone()))?;
        Ok(Self { zstd, chunk: Vec::with_capacity(CHUNK), what })
    }

    /// Writes a word.
    ///
    /// # Errors
    /// When it cannot be written.
    #[inline]
    pub fn push(&mut self, word: u64) -> Result<()> {
        self.chunk.extend_from_slice(&word.to_le_bytes());
        if self.chunk.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Writes what is left, and the end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.zstd.finish().map_err(Error::io(self.what))
    }

    fn flush(&mut self) -> Result<()> {
        self.zstd.write_all(&self.chunk).map_err(Error::io(self.what.clone()))?;
        self.chunk.clear();
        Ok(())
    }
}
