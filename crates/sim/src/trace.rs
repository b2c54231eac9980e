//! Traces of memory accesses that people have, each form told by its content.
//!
//! | form | made by | what it looks like |
//! |---|---|---|
//! | `lackey` | `valgrind --tool=lackey --trace-mem=yes` | ` S 1ffeff,8` |
//! | `din` | Dinero, and many others | `1 7ffe0010` |
//! | `champsim` | ChampSim's tracers | records of 64 bytes |
//! | `drmemtrace` | DynamoRIO's `view` tool | `.. 4711 write 8 byte(s) @ 0x7ffd.. by PC ..` |
//! | `ramulator` | Ramulator's CPU traces | `7 20734016 20841280` |
//! | `compact` | `ferrite sim` | words of 8 bytes, little-endian: `line << 1 \| write` |
//! | `compact-pc` | `ferrite sim` | the 8 bytes `1ferrite`, then such words, each with a byte behind it: the signature |
//!
//! In the compact forms the top byte of a word names the core where there are several.
//!
//! A signature stands for the program counter: see [`MemoryAccess::new`]. Lackey's and Dinero's traces tell it where they have
//! the instructions' fetches, ChampSim's and drmemtrace's always, Ramulator's and plain compact ones never.

mod access_format;
mod access_read_ahead;
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
pub use access_read_ahead::AccessReadAhead;
pub use compact::{PackedWriter, Packing, pack};
pub use event_source::{EventSource, FilteredTrace, FirstLevel, FirstLevelFilter};

use crate::cache::signature;
use crate::{Result, TraceInput};

/// What an access does.
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
    /// The first byte.
    pub address: u64,
    /// How many.
    pub bytes: u32,
    /// By which core, from 0.
    pub core: u16,
    /// What it does.
    pub kind: AccessKind,
    /// A hash of the instruction.
    pub signature: u8,
}

impl MemoryAccess {
    /// One by the first core, and by nobody knows which instruction: it has the signature of its region of memory. That
    /// of a fetch is a hash of where in its page the instruction is.
    pub fn new(kind: AccessKind, address: u64, bytes: u32) -> Self {
        let signature = if kind == AccessKind::Fetch { signature(address) } else { region(address) };
        Self { address, bytes, core: 0, kind, signature }
    }

    /// The same by the instruction at `counter`.
    #[must_use]
    pub fn by(self, counter: u64) -> Self {
        Self { signature: signature(counter), ..self }
    }

    /// The lines that it touches.
    #[inline]
    pub fn lines(&self, line_bits: u32) -> std::ops::RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(self.bytes.max(1)) - 1);
        self.address >> line_bits..=last >> line_bits
    }
}

/// A hash of the 512 KiB in which an address is.
#[inline]
fn region(address: u64) -> u8 {
    ((address >> 19).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Accesses, some at a time.
pub trait AccessReader: Send {
    /// Puts the next ones behind those in `into`; whether there may be more.
    ///
    /// # Errors
    /// What is wrong with the trace, and where. What came before it is in `into`.
    fn read(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool>;

    /// The next ones as they stand in a trace of a compact form; `None` of every other form.
    ///
    /// # Errors
    /// As [`AccessReader::read`]; what came before was given by an earlier call.
    fn words(&mut self) -> Option<Result<PackedWords<'_>>> {
        None
    }

    /// Whether the last line that was read had no end: maybe the trace was cut there.
    fn is_cut(&self) -> bool {
        false
    }
}

/// Accesses in one of the compact forms.
#[derive(Clone, Copy, Debug)]
pub struct PackedWords<'a> {
    /// Words of eight bytes, little-endian, none beyond all memory, each with its signature behind it if it has one.
    pub bytes: &'a [u8],
    /// Whether they have.
    pub have_signatures: bool,
    /// Cores that their top bytes name, if there are several.
    pub cores: u16,
    /// Base-two logarithm of the bytes of a line.
    pub line_bits: u32,
    /// Whether there may be more.
    pub more: bool,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedWord {
    /// Who accesses.
    pub core: u16,
    /// What.
    pub line: u64,
    /// Whether it is written.
    pub is_write: bool,
    /// The signature, if the trace tells it.
    told: Option<u8>,
    line_bits: u32,
}

impl PackedWord {
    /// See [`MemoryAccess::new`].
    #[inline]
    pub fn signature(&self) -> u8 {
        self.told.unwrap_or_else(|| region(self.line << self.line_bits))
    }
}

impl PackedWords<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / compact::bytes_of(self.have_signatures)
    }

    /// Gives each to `to`.
    #[inline(always)]
    pub fn each(&self, mut to: impl FnMut(PackedWord)) {
        if self.have_signatures {
            self.bytes.as_chunks::<9>().0.iter().for_each(|bytes| to(self.word(bytes, Some(bytes[8]))));
        } else {
            self.bytes.as_chunks::<8>().0.iter().for_each(|bytes| to(self.word(bytes, None)));
        }
    }

    #[inline(always)]
    fn word(&self, bytes: &[u8], told: Option<u8>) -> PackedWord {
        let (core, word) = compact::split(compact::word(bytes), self.cores, self.line_bits);
        PackedWord { core, line: word >> 1, is_write: word & 1 != 0, told, line_bits: self.line_bits }
    }
}

/// How a trace is to be read.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// Its form, if its content is not to tell.
    pub form: Option<AccessFormat>,
    /// Base-two logarithm of the bytes of a line, for forms that count in lines.
    pub line_bits: u32,
    /// Cores; what further ones did is taken as done by these in turn.
    pub cores: u16,
}

/// A reader of the trace `input`, by its form.
///
/// # Errors
/// When it is empty or cannot be read, or its content is of no form that is known.
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
