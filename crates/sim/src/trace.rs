//! Traces of memory accesses in common formats; the content of a trace decides its format.
//!
//! | format | made by | example |
//! |---|---|---|
//! | `lackey` | `valgrind --tool=lackey --trace-mem=yes` | ` S 1ffeff,8` |
//! | `din` | Dinero, and many others | `1 7ffe0010` |
//! | `champsim` | ChampSim's tracers | records of 64 bytes |
//! | `drmemtrace` | DynamoRIO's `view` tool | `.. 4711 write 8 byte(s) @ 0x7ffd.. by PC ..` |
//! | `ramulator` | Ramulator's CPU traces | `7 20734016 20841280` |
//! | `compact` | `ferrite sim` | words of 8 bytes, little-endian: `line << 1 \| write` |
//! | `compact-pc` | `ferrite sim` | the 8 bytes `1ferrite`, then such words, each with a byte behind it: the signature |
//!
//! In the compact formats the top byte of a word names the core if there are several cores.
//!
//! A signature stands for the program counter: see [`MemoryAccess::new`]. Lackey's and Dinero's traces determine it if
//! they contain instruction fetches, ChampSim's and drmemtrace's always, Ramulator's and plain compact ones never.

mod access_format;
mod champsim;
mod compact;
mod din;
mod drmemtrace;
mod event_source;
mod lackey;
mod ramulator;
mod record_chunks;
#[cfg(test)]
mod tests;
mod text_trace;

pub use access_format::AccessFormat;
pub use compact::{PackedWriter, Packing, pack};
pub use event_source::{EventSource, FilteredTrace, FirstLevel, FirstLevelFilter};

use crate::cache::signature;
use crate::{Result, TraceInput};

/// The operation of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Fetches an instruction.
    Fetch,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The address of the first byte.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u32,
    /// The core, counted from 0.
    pub core: u16,
    /// The operation.
    pub kind: AccessKind,
    /// The signature: a hash of the instruction.
    pub signature: u8,
}

impl MemoryAccess {
    /// Returns an access by the first core. A fetch has the signature of the instruction's place in its page. The
    /// instruction of another access is not known, so it has the signature of its region of memory.
    pub fn new(kind: AccessKind, address: u64, bytes: u32) -> Self {
        let signature = if kind == AccessKind::Fetch { signature(address) } else { region(address) };
        Self { address, bytes, core: 0, kind, signature }
    }

    /// Returns the same access by the instruction at `counter`.
    #[must_use]
    pub fn by(self, counter: u64) -> Self {
        Self { signature: signature(counter), ..self }
    }

    /// Returns the lines that the access touches.
    #[inline]
    pub fn lines(&self, line_bits: u32) -> std::ops::RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(self.bytes.max(1)) - 1);
        self.address >> line_bits..=last >> line_bits
    }
}

/// Returns a hash of the 512 KiB that contain an address.
#[inline]
fn region(address: u64) -> u8 {
    ((address >> 19).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A reader of accesses.
pub trait AccessReader: Send {
    /// Appends the next accesses to `into`. Returns true if more may follow.
    ///
    /// # Errors
    /// The trace is malformed; the error says where. The accesses before that place are in `into`.
    fn read(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool>;

    /// Returns the next words of a trace in a compact format; `None` for every other format.
    ///
    /// # Errors
    /// The errors of [`AccessReader::read`]; an earlier call returned the words before that place.
    fn words(&mut self) -> Option<Result<PackedWords<'_>>> {
        None
    }

    /// Returns true if the last line that was read has no end, so the trace may be cut there.
    fn is_cut(&self) -> bool {
        false
    }
}

/// Accesses in one of the compact formats.
#[derive(Clone, Copy, Debug)]
pub struct PackedWords<'a> {
    /// Words of eight bytes, little-endian, each followed by its signature if the format has signatures. No word has a
    /// line beyond all memory.
    pub bytes: &'a [u8],
    /// True if the format has signatures.
    pub have_signatures: bool,
    /// The number of cores that the top bytes name.
    pub cores: u16,
    /// Base-two logarithm of the bytes of a line.
    pub line_bits: u32,
    /// True if more may follow.
    pub more: bool,
}

/// One access of a compact format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedWord {
    /// The core.
    pub core: u16,
    /// The line.
    pub line: u64,
    /// True for a write.
    pub is_write: bool,
    /// The signature, if the format has signatures.
    given: Option<u8>,
    line_bits: u32,
}

impl PackedWord {
    /// Returns the signature: see [`MemoryAccess::new`].
    #[inline]
    pub fn signature(&self) -> u8 {
        self.given.unwrap_or_else(|| region(self.line << self.line_bits))
    }
}

impl PackedWords<'_> {
    /// Returns the number of words.
    pub fn count(&self) -> usize {
        self.bytes.len() / compact::bytes_of(self.have_signatures)
    }

    /// Passes each word to `to`.
    #[inline(always)]
    pub fn each(&self, mut to: impl FnMut(PackedWord)) {
        if self.have_signatures {
            self.bytes.as_chunks::<9>().0.iter().for_each(|bytes| to(self.word(bytes, Some(bytes[8]))));
        } else {
            self.bytes.as_chunks::<8>().0.iter().for_each(|bytes| to(self.word(bytes, None)));
        }
    }

    #[inline(always)]
    fn word(&self, bytes: &[u8], given: Option<u8>) -> PackedWord {
        let (core, word) = compact::split(compact::word(bytes), self.cores, self.line_bits);
        PackedWord { core, line: word >> 1, is_write: word & 1 != 0, given, line_bits: self.line_bits }
    }
}

/// The options of reading a trace of accesses.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// The format, or `None` to detect it by content.
    pub form: Option<AccessFormat>,
    /// Base-two logarithm of the bytes of a line, for forms that count in lines.
    pub line_bits: u32,
    /// The number of cores; the accesses of further cores are spread over these in turn.
    pub cores: u16,
}

/// Opens a reader for the trace `input`, by its format.
///
/// # Errors
/// The trace is empty or cannot be read, or its content has no known format.
pub fn open(mut input: TraceInput, reading: TraceOptions) -> Result<Box<dyn AccessReader>> {
    let form = AccessFormat::of(&mut input, reading)?;
    if form.is_text() {
        input.skip_mark()?;
    }
    if let Some(parse) = form.parser(reading.cores) {
        return Ok(Box::new(text_trace::TextReader::new(input, parse)));
    }
    Ok(match form {
        AccessFormat::CompactPc => Box::new(compact::PackedReader::with_signatures(input, reading)?),
        AccessFormat::Champsim => Box::new(champsim::ChampsimReader::new(input)),
        _ => Box::new(compact::PackedReader::new(input, reading)),
    })
}

/// A trace of accesses that is read ahead.
pub type AccessReadAhead = crate::read_ahead::ReadAhead<MemoryAccess>;

impl AccessReadAhead {
    /// Starts to read `reader` ahead.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn new(reader: Box<dyn AccessReader>) -> Result<Self> {
        Self::of(|| Ok(reader), |reader, into| reader.read(into), |reader| reader.is_cut())
    }
}
