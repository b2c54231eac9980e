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
//!
//! In the compact form the top byte names the core where there are several.

mod ahead;
mod champsim;
mod compact;
mod din;
mod drmemtrace;
mod form;
mod lackey;
mod ramulator;
mod source;
#[cfg(test)]
mod tests;
mod text;

pub use ahead::Ahead;
pub use compact::{Writer, pack};
pub use form::Form;
pub use source::{Filter, Filtered, First, Source};

use crate::{Input, Result};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Fetches an instruction.
    Fetch,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// How many.
    pub bytes: u32,
    /// By which core, from 0.
    pub core: u16,
    /// What it does.
    pub kind: Kind,
}

impl Access {
    /// One by the first core.
    pub fn new(kind: Kind, address: u64, bytes: u32) -> Self {
        Self { address, bytes, core: 0, kind }
    }

    /// The lines that it touches.
    #[inline]
    pub fn lines(&self, line_bits: u32) -> std::ops::RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(self.bytes.max(1)) - 1);
        self.address >> line_bits..=last >> line_bits
    }
}

/// Accesses, some at a time.
pub trait Reader: Send {
    /// Puts the next ones behind those in `into`; whether there may be more.
    ///
    /// # Errors
    /// What is wrong with the trace, and where. What came before it is in `into`.
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool>;

    /// The next ones as they stand in a trace of the compact form; `None` of every other form.
    ///
    /// # Errors
    /// As [`Reader::read`]; what came before was given by an earlier call.
    fn words(&mut self) -> Option<Result<Words<'_>>> {
        None
    }
}

/// Accesses in the compact form.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// Words of eight bytes, little-endian, none beyond all memory.
    pub bytes: &'a [u8],
    /// Cores that their top bytes name, if there are several.
    pub cores: u16,
    /// Base-two logarithm of the bytes of a line.
    pub line_bits: u32,
    /// Whether there may be more.
    pub more: bool,
}

impl Words<'_> {
    /// Each as its core, its line, and whether it writes.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64, bool)> + '_ {
        self.bytes.chunks_exact(8).map(|word| {
            let (core, word) = compact::split(compact::word(word), self.cores, self.line_bits);
            (core, word >> 1, word & 1 != 0)
        })
    }
}

/// How a trace is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its form, if its content is not to tell.
    pub form: Option<Form>,
    /// Base-two logarithm of the bytes of a line, for forms that count in lines.
    pub line_bits: u32,
    /// Cores; what further ones did is taken as done by these in turn.
    pub cores: u16,
}

/// A reader of the trace `input`, by its form.
///
/// # Errors
/// When it cannot be read, or its content is of no form that is known.
pub fn open(mut input: Input, reading: Reading) -> Result<Box<dyn Reader>> {
    let form = match reading.form {
        Some(form) => form,
        None => Form::of(&mut input)?,
    };
    Ok(match form {
        Form::Lackey => Box::new(text::Lines::new(input, lackey::parse)),
        Form::Din => Box::new(text::Lines::new(input, din::parse)),
        Form::Ramulator => Box::new(text::Lines::new(input, ramulator::parse)),
        Form::Drmemtrace => Box::new(text::Lines::new(input, drmemtrace::parser(reading.cores))),
        Form::Champsim => Box::new(champsim::Records::new(input)),
        Form::Compact => Box::new(compact::Packed::new(input, reading)),
    })
}
