//! Which form a trace has.

use std::str::FromStr;

use super::champsim::{self, RECORD};
use super::compact::{self, HEAD};
use super::text_trace::{TextParser, after_fetches, parse_line};
use super::{TraceOptions, din, drmemtrace, lackey, ramulator};
use crate::detect::{FirstLines, FormatVerdict};
use crate::trace_input::MARK;
use crate::{Error, Result, TraceInput};

/// The forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// valgrind's
    Lackey,
    /// Dinero's
    Din,
    /// ChampSim's
    Champsim,
    /// DynamoRIO's
    Drmemtrace,
    /// Ramulator's
    Ramulator,
    /// our own
    Compact,
    /// our own, with signatures
    CompactPc,
}

/// Bytes that are looked at.
pub(super) const LOOKED_AT: usize = 1 << 16;

impl AccessFormat {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("lackey", Self::Lackey),
        ("din", Self::Din),
        ("champsim", Self::Champsim),
        ("drmemtrace", Self::Drmemtrace),
        ("ramulator", Self::Ramulator),
        ("compact", Self::Compact),
        ("compact-pc", Self::CompactPc),
    ];

    /// The form of `input`: that of `reading` if it names one, or by its first bytes.
    ///
    /// # Errors
    /// When it is empty, cannot be read, or is of no known form.
    pub fn of(input: &mut TraceInput, reading: TraceOptions) -> Result<Self> {
        input.ensure_content()?;
        reading.form.map_or_else(|| Self::looked_at(input, reading), Ok)
    }

    fn looked_at(input: &mut TraceInput, reading: TraceOptions) -> Result<Self> {
        let begin = input.peek(LOOKED_AT)?;
        if begin.get(1..8) == Some(&HEAD[1..]) {
            return Ok(Self::CompactPc);
        }
        let unmarked = begin.strip_prefix(MARK).unwrap_or(&begin);
        let verdict = text_verdict(unmarked, begin.len() < LOOKED_AT, reading.cores);
        if let Some(form) = verdict.accepted() {
            return Ok(form);
        }
        let is_text = unmarked.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        if is_text || verdict.is_ambiguous() {
            return verdict.nearest().ok_or_else(|| verdict.error(&input.path, Self::name));
        }
        binary(&begin, reading).map_err(|why| Error::malformed(&input.path, 1, format!("no trace: {why}")))
    }

    /// The grammar of a form that is lines of text.
    pub(super) fn parser(self, cores: u16) -> Option<TextParser> {
        match self {
            Self::Lackey => Some(after_fetches(lackey::parse)),
            Self::Din => Some(after_fetches(din::parse)),
            Self::Ramulator => Some(Box::new(ramulator::parse)),
            Self::Drmemtrace => Some(drmemtrace::parser(cores)),
            Self::Champsim | Self::Compact | Self::CompactPc => None,
        }
    }

    /// Whether it is lines of text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Lackey | Self::Din | Self::Drmemtrace | Self::Ramulator)
    }

    /// Whether its traces name the core of an access.
    pub fn names_cores(self) -> bool {
        matches!(self, Self::Drmemtrace | Self::Compact | Self::CompactPc)
    }

    /// Whether its traces have fetches of instructions.
    pub fn has_fetches(self) -> bool {
        matches!(self, Self::Lackey | Self::Din | Self::Drmemtrace | Self::Champsim)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|one| one.1 == self).map_or("", |one| one.0)
    }
}

impl FromStr for AccessFormat {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.0 == name).map(|one| one.1);
        found.ok_or_else(|| format!("there is no form {name:?}; there are {}", Self::ALL.map(|one| one.0).join(", ")))
    }
}

/// Returns the verdict of the text forms' readers on a trace that begins with `begin`, or is only that if `is_whole`.
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

/// Returns the form of a trace that does not begin with text, or why it has no form.
fn binary(begin: &[u8], reading: TraceOptions) -> std::result::Result<AccessFormat, String> {
    const NONE: &str = "its bytes are of no known form; --format names one";
    let is_whole = |record: usize| begin.len() == LOOKED_AT || begin.len().is_multiple_of(record);
    if begin.iter().all(|byte| *byte == 0) {
        return Err(format!("its first {} bytes are zeros; --format names a form that has them", begin.len()));
    }
    if is_champsim(begin) {
        return Ok(AccessFormat::Champsim);
    }
    if !compact::is_plausible(begin, reading) {
        return Err(NONE.into());
    }
    if !is_whole(compact::bytes_of(false)) {
        return Err(format!("{NONE}; of compact it would be truncated, for its last word is cut"));
    }
    let (records, _) = begin.as_chunks::<RECORD>();
    if is_whole(RECORD) && records.iter().all(|record| champsim::decode(record, &mut Vec::new()).is_ok()) {
        return Err("it can be read as champsim and as compact: name one by --format".into());
    }
    Ok(AccessFormat::Compact)
}

/// Instructions are somewhere, branch or do not, and some touch memory, which is nowhere near 0. Where a prefetch or a
/// tracer's mistake says otherwise, 15 of 16 records are enough.
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
