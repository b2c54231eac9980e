//! Ferrite's own formats. The plain one is a word of 8 bytes for each access, little-endian, `line << 1 | write`. If
//! there are several cores, the top byte names the core, in the place of ones or zeros that every address has there. A
//! trace is usually compressed with zstd. A line beyond 2^64 bytes does not exist, and a word with such a line is
//! malformed.
//!
//! ```text
//! with signatures:  [1ferrite]  then for each access  [word, 8 bytes] [signature, 1 byte]
//! ```
//!
//! The first byte is the version. Read as a word, the head would be a line beyond all memory, or by one core of several
//! a line at an address that no processor has.

use std::io::{Read, Write};

use super::record_chunks::RecordChunks;
use super::text_trace::shown;
use super::{AccessKind, AccessReader, MemoryAccess, PackedWord, PackedWords, TraceOptions};
use crate::cache::CacheEvent;
use crate::{Error, Result, TraceInput};

/// The lowest bit of the core.
const CORE_SHIFT: u32 = 56;

/// The bits below the core.
const BESIDE: u64 = (1 << CORE_SHIFT) - 1;

/// The first bytes of a trace with signatures.
pub const HEAD: &[u8; 8] = b"1ferrite";

/// Returns the bytes of an access.
pub const fn bytes_of(have_signatures: bool) -> usize {
    8 + have_signatures as usize
}

/// A reader of a trace's words.
pub struct PackedReader {
    chunks: RecordChunks,
    reading: TraceOptions,
    have_signatures: bool,
    /// The error at the word behind the current ones.
    wrong: Option<Error>,
}

impl PackedReader {
    /// Reads words without signatures from the beginning of `input`.
    pub fn new(input: TraceInput, reading: TraceOptions) -> Self {
        Self::of(input, reading, false)
    }

    fn of(input: TraceInput, reading: TraceOptions, have_signatures: bool) -> Self {
        Self { chunks: RecordChunks::of(input, bytes_of(have_signatures)), reading, have_signatures, wrong: None }
    }

    /// Reads words with signatures; consumes the head.
    ///
    /// # Errors
    /// The head is missing, or has another version.
    pub fn with_signatures(mut input: TraceInput, reading: TraceOptions) -> Result<Self> {
        let mut head = Vec::new();
        let read = (&mut input.bytes).take(HEAD.len() as u64).read_to_end(&mut head);
        read.map_err(|error| Error::reading(&input.path, 0, error))?;
        if head == HEAD {
            return Ok(Self::of(input, reading, true));
        }
        if HEAD.starts_with(&head) {
            return Err(Error::Truncated { file: input.path, line: 0, reason: "the head is cut".into() });
        }
        let head = shown(&head);
        Err(Error::malformed(&input.path, 1, format!("{head} is not the head of a trace with signatures of version 1")))
    }

    fn next(&mut self) -> Result<PackedWords<'_>> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let bytes = bytes_of(self.have_signatures);
        let mut more = self.chunks.next()?;
        let TraceOptions { cores, line_bits, .. } = self.reading;
        let line = |bytes| line(bytes, cores, line_bits);
        let all = self.chunks.bytes.chunks_exact(bytes).fold(0, |all, word| all | line(word));
        if is_beyond(all, line_bits) {
            let mut words = self.chunks.bytes.chunks_exact(bytes);
            let wrong = words.position(|word| is_beyond(line(word), line_bits)).expect("one of them is");
            let reason = format!("line {} is beyond all memory", line(&self.chunks.bytes[wrong * bytes..]));
            let number = self.chunks.before + wrong as u64 + 1;
            self.wrong = Some(Error::malformed(&self.chunks.input.path, number, reason));
            self.chunks.bytes.truncate(wrong * bytes);
            more = true;
        }
        Ok(PackedWords { bytes: &self.chunks.bytes, have_signatures: self.have_signatures, cores, line_bits, more })
    }
}

impl AccessReader for PackedReader {
    fn read(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool> {
        let line_bits = self.reading.line_bits;
        let words = self.next()?;
        words.each(|word: PackedWord| {
            let kind = if word.is_write { AccessKind::Write } else { AccessKind::Read };
            let (core, signature) = (word.core, word.signature());
            into.push(MemoryAccess { core, signature, ..MemoryAccess::new(kind, word.line << line_bits, 1) });
        });
        Ok(words.more)
    }

    fn words(&mut self) -> Option<Result<PackedWords<'_>>> {
        Some(self.next())
    }
}

/// Returns the word in the first eight bytes.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"))
}

/// Returns the core of a word and the remaining bits, with the ones of a kernel's address that the core replaced. With
/// one core, all bits of the word remain.
#[inline]
pub(super) fn split(word: u64, cores: u16, line_bits: u32) -> (u16, u64) {
    if cores <= 1 {
        return (0, word);
    }
    let begins_with_ones = word >> (CORE_SHIFT - 1) & 1 != 0;
    let replaced = if begins_with_ones { u64::MAX >> line_bits << 1 & !BESIDE } else { 0 };
    ((word >> CORE_SHIFT) as u16 % cores, word & BESIDE | replaced)
}

/// Returns the line of the word in the first eight bytes.
fn line(bytes: &[u8], cores: u16, line_bits: u32) -> u64 {
    split(word(bytes), cores, line_bits).1 >> 1
}

fn is_beyond(line: u64, line_bits: u32) -> bool {
    line >> (64 - line_bits) != 0
}

/// Returns true if a trace may begin with these bytes: every whole word has a line within memory.
pub fn is_plausible(begin: &[u8], reading: TraceOptions) -> bool {
    let TraceOptions { cores, line_bits, .. } = reading;
    begin.chunks_exact(8).all(|word| !is_beyond(line(word, cores, line_bits), line_bits))
}

/// Passes the words of an access to `push`: one for each line that it touches. With several cores, a word names the
/// core.
pub fn pack(access: &MemoryAccess, reading: &TraceOptions, mut push: impl FnMut(u64)) {
    let (core, kept) = if reading.cores > 1 { (u64::from(access.core) << CORE_SHIFT, BESIDE) } else { (0, u64::MAX) };
    for line in access.lines(reading.line_bits) {
        push(core | line << 1 & kept | u64::from(access.kind == AccessKind::Write));
    }
}

/// Bytes written at once.
const CHUNK: usize = 1 << 18;

/// zstd's own default: its higher levels gain little here and cost much.
const LEVEL: i32 = 3;

/// The format that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Words without signatures.
    Words,
    /// Words with signatures.
    Signatures,
}

/// Writes a compact format, compressed with zstd.
pub struct PackedWriter<W: Write> {
    zstd: zstd::Encoder<'static, W>,
    packing: Packing,
    chunk: Vec<u8>,
    what: String,
}

impl<W: Write> PackedWriter<W> {
    /// Starts a trace on `to`, which messages call `name`.
    ///
    /// # Errors
    /// The compressor cannot be created.
    pub fn new(to: W, name: &str, packing: Packing) -> Result<Self> {
        let what = format!("writing {name}");
        let zstd = zstd::Encoder::new(to, LEVEL).map_err(Error::io(what.clone()))?;
        let mut chunk = Vec::with_capacity(CHUNK);
        if packing == Packing::Signatures {
            chunk.extend_from_slice(HEAD);
        }
        Ok(Self { zstd, packing, chunk, what })
    }

    /// Writes a word, and its signature if the format has signatures.
    ///
    /// # Errors
    /// The output cannot be written.
    #[inline]
    pub fn push(&mut self, word: u64, signature: u8) -> Result<()> {
        self.chunk.extend_from_slice(&word.to_le_bytes());
        if self.packing == Packing::Signatures {
            self.chunk.push(signature);
        }
        if self.chunk.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Writes an event of the last level.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn event(&mut self, event: CacheEvent) -> Result<()> {
        self.push(event.line() << 1 | u64::from(event.is_write()), event.signature())
    }

    /// Writes the remaining words and the end of the stream, and returns the output.
    ///
    /// # Errors
    /// The output cannot be written.
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
