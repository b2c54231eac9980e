//! Detection of the format of a trace of accesses.

use std::str::FromStr;

use super::champsim::{self, RECORD};
use super::compact::{self, HEAD};
use super::text_trace::{TextParser, after_fetches, parse_line};
use super::{TraceOptions, din, drmemtrace, lackey, ramulator};
use crate::detect::{FirstLines, FormatVerdict};
use crate::trace_input::MARK;
use crate::{Error, Result, TraceInput};

/// The formats of traces of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Valgrind's lackey.
    Lackey,
    /// Dinero's.
    Din,
    /// ChampSim's.
    Champsim,
    /// DynamoRIO's.
    Drmemtrace,
    /// Ramulator's.
    Ramulator,
    /// Ferrite's own.
    Compact,
    /// Ferrite's own, with signatures.
    CompactPc,
}

/// Bytes that are examined to detect the format.
pub(super) const EXAMINED_BYTES: usize = 1 << 16;

impl AccessFormat {
    /// All formats, by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("lackey", Self::Lackey),
        ("din", Self::Din),
        ("champsim", Self::Champsim),
        ("drmemtrace", Self::Drmemtrace),
        ("ramulator", Self::Ramulator),
        ("compact", Self::Compact),
        ("compact-pc", Self::CompactPc),
    ];

    /// Returns the format of `input`: the one that `reading` names, or the one that its first bytes show.
    ///
    /// # Errors
    /// The trace is empty, cannot be read, or has no known format.
    pub fn of(input: &mut TraceInput, reading: TraceOptions) -> Result<Self> {
        input.ensure_content()?;
        reading.form.map_or_else(|| Self::detected(input, reading), Ok)
    }

    fn detected(input: &mut TraceInput, reading: TraceOptions) -> Result<Self> {
        let begin = input.peek(EXAMINED_BYTES)?;
        if begin.get(1..8) == Some(&HEAD[1..]) {
            return Ok(Self::CompactPc);
        }
        let unmarked = begin.strip_prefix(MARK).unwrap_or(&begin);
        let verdict = text_verdict(unmarked, begin.len() < EXAMINED_BYTES, reading.cores);
        if let Some(form) = verdict.accepted() {
            return Ok(form);
        }
        let is_text = unmarked.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        if is_text || verdict.is_ambiguous() {
            return verdict.nearest().ok_or_else(|| verdict.error(&input.path, Self::name));
        }
        binary(&begin, reading).map_err(|why| Error::malformed(&input.path, 1, format!("not a trace: {why}")))
    }

    /// Returns the parser of a text format, or `None` for a binary one.
    pub(super) fn parser(self, cores: u16) -> Option<TextParser> {
        match self {
            Self::Lackey => Some(after_fetches(lackey::parse)),
            Self::Din => Some(after_fetches(din::parse)),
            Self::Ramulator => Some(Box::new(ramulator::parse)),
            Self::Drmemtrace => Some(drmemtrace::parser(cores)),
            Self::Champsim | Self::Compact | Self::CompactPc => None,
        }
    }

    /// Returns true if the format is lines of text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Lackey | Self::Din | Self::Drmemtrace | Self::Ramulator)
    }

    /// Returns true if its traces name the core of an access.
    pub fn names_cores(self) -> bool {
        matches!(self, Self::Drmemtrace | Self::Compact | Self::CompactPc)
    }

    /// Returns true if its traces contain instruction fetches.
    pub fn has_fetches(self) -> bool {
        matches!(self, Self::Lackey | Self::Din | Self::Drmemtrace | Self::Champsim)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|one| one.1 == self).map_or("", |one| one.0)
    }
}

impl FromStr for AccessFormat {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.0 == name).map(|one| one.1);
        found.ok_or_else(|| format!("there is no format {name:?}; there are {}", Self::ALL.map(|one| one.0).join(", ")))
    }
}

/// Returns the verdict of the text formats' readers on a trace that begins with `begin`; with `is_whole` that is the
/// whole trace.
fn text_verdict(begin: &[u8], is_whole: bool, cores: u16) -> FormatVerdict<AccessFormat> {
    FormatVerdict::of(begin, is_whole, |lines: &FirstLines<'_>| {
        let mut found = Vec::new();
        let tried = AccessFormat::ALL.into_iter().filter_map(|(_, form)| {
            let mut parser = form.parser(cores)?;
            Some(lines.try_reader(form, |line| {
                found.clear();
                parse_line(&mut parser, line, &mut found)?;
                Ok(found.len())
            }))
        });
        tried.collect()
    })
}

/// Returns the format of a trace that does not begin with text, or the reason why it has no format.
fn binary(begin: &[u8], reading: TraceOptions) -> std::result::Result<AccessFormat, String> {
    const NONE: &str = "its bytes have no known format; name one with --format";
    let is_whole = |record: usize| begin.len() == EXAMINED_BYTES || begin.len().is_multiple_of(record);
    if begin.iter().all(|byte| *byte == 0) {
        return Err(format!("its first {} bytes are zeros; name the format with --format", begin.len()));
    }
    if is_champsim(begin) {
        return Ok(AccessFormat::Champsim);
    }
    if !compact::is_plausible(begin, reading) {
        return Err(NONE.into());
    }
    if !is_whole(compact::bytes_of(false)) {
        return Err(format!("{NONE}; as compact it would be truncated, because its last word is cut"));
    }
    let (records, _) = begin.as_chunks::<RECORD>();
    if is_whole(RECORD) && records.iter().all(|record| champsim::decode(record, &mut Vec::new()).is_ok()) {
        return Err("it can be read as champsim and as compact: name one with --format".into());
    }
    Ok(AccessFormat::Compact)
}

/// Returns true if 15 of 16 records are plausible: instructions have an address, branch or do not, and some access
/// memory, which is nowhere near 0. The rest allows for a prefetch or a tracer's mistake.
fn is_champsim(begin: &[u8]) -> bool {
    let records = begin.chunks_exact(RECORD);
    let word = |record: &[u8], at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let is_address = |address: u64| address == 0 || address >= 4096;
    let is_record = |record: &&[u8]| {
        record[8] <= 1
            && record[9] <= record[8]
            && word(record, 0) >= 4096
            && (16..RECORD).step_by(8).all(|at| is_address(word(record, at)))
    };
    let (all, sound) = (records.len(), records.filter(is_record).count());
    all > 0 && sound * 16 >= all * 15
}
