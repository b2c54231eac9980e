//! Our own form: a word of 8 bytes for each access, little-endian, `line << 1 | write`; where there are several cores
//! the top byte names the one. Usually within zstd. Line 2^63 and beyond do not exist, so no word is wrong.

use std::io::Write;

use super::champsim::chunk;
use super::{Access, Kind, Reader, Reading};
use crate::{Error, Input, Result};

/// Where the core stands.
const CORE_SHIFT: u32 = 56;

/// Words of a trace.
pub struct Words {
    input: Input,
    reading: Reading,
    done: u64,
    chunk: Vec<u8>,
}

impl Words {
    /// None read yet.
    pub fn new(input: Input, reading: Reading) -> Self {
        Self { input, reading, done: 0, chunk: Vec::new() }
    }
}

impl Reader for Words {
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool> {
        let more = chunk(&mut self.input, &mut self.chunk, self.done, 8)?;
        for word in self.chunk.chunks_exact(8) {
            self.done += 1;
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let access = unpack(word, &self.reading);
            into.push(access.ok_or_else(|| {
                Error::malformed(&self.input.path, self.done, format!("line {} is beyond all memory", word >> 1))
            })?);
        }
        Ok(more)
    }
}

#[inline]
fn unpack(word: u64, reading: &Reading) -> Option<Access> {
    let (core, word) = if reading.cores > 1 { split(word, reading.cores) } else { (0, word) };
    let line = word >> 1;
    let address = line << reading.line_bits;
    let kind = if word & 1 == 0 { Kind::Read } else { Kind::Write };
    (address >> reading.line_bits == line).then_some(Access { core, ..Access::new(kind, address, 1) })
}

fn split(word: u64, cores: u16) -> (u16, u64) {
    ((word >> CORE_SHIFT) as u16 % cores, word & ((1 << CORE_SHIFT) - 1))
}

/// The words of an access: one for each line that it touches. The core is kept where there are several.
pub fn pack(access: &Access, reading: &Reading, mut push: impl FnMut(u64)) {
    let core = if reading.cores > 1 { u64::from(access.core) << CORE_SHIFT } else { 0 };
    for line in access.lines(reading.line_bits) {
        push(core | line << 1 | u64::from(access.kind == Kind::Write));
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
