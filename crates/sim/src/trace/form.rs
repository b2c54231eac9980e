//! Which form a trace has.

use std::str::FromStr;

use super::champsim::RECORD;
use super::compact::{self, HEAD};
use super::text::{decimal, hexadecimal, words};
use super::{Reading, lackey};
use crate::input::MARK;
use crate::{Error, Input, Result};

/// The forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
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
const LOOKED_AT: usize = 1 << 16;

impl Form {
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
    pub fn of(input: &mut Input, reading: Reading) -> Result<Self> {
        input.ensure_content()?;
        reading.form.map_or_else(|| Self::looked_at(input, reading), Ok)
    }

    fn looked_at(input: &mut Input, reading: Reading) -> Result<Self> {
        let begin = input.peek(LOOKED_AT)?;
        if begin.get(1..8) == Some(&HEAD[1..]) {
            return Ok(Self::CompactPc);
        }
        let unmarked = begin.strip_prefix(MARK).unwrap_or(&begin);
        let unknown = |why: &str| Error::malformed(&input.path, 1, format!("no trace: {why}"));
        if unmarked.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            let known = "the forms of text that are known are those of lackey, din, drmemtrace and ramulator";
            return text(unmarked).ok_or_else(|| unknown(known));
        }
        if is_champsim(&begin) {
            return Ok(Self::Champsim);
        }
        let none = "its bytes are of no known form; --format names one";
        match compact::is_plausible(&begin, reading) {
            true if begin.len() == LOOKED_AT || begin.len().is_multiple_of(8) => Ok(Self::Compact),
            true => Err(unknown(&format!("{none}; of compact it would be truncated, for its last word is cut"))),
            false => Err(unknown(none)),
        }
    }

    /// Whether it is lines of text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Lackey | Self::Din | Self::Drmemtrace | Self::Ramulator)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|one| one.1 == self).map_or("", |one| one.0)
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.0 == name).map(|one| one.1);
        found.ok_or_else(|| format!("there is no form {name:?}; there are {}", Self::ALL.map(|one| one.0).join(", ")))
    }
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

fn text(begin: &[u8]) -> Option<Form> {
    let complete = begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]);
    let lines = || complete.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    if lines().any(|line| line.windows(9).any(|part| part == b"byte(s) @") || line.starts_with(b"Output format")) {
        return Some(Form::Drmemtrace);
    }
    let is_lackey = |line: &[u8]| matches!(line.get(..3), Some(b"I  " | b" L " | b" S " | b" M "));
    if lines().find(|line| !lackey::is_message(line)).is_some_and(is_lackey) {
        return Some(Form::Lackey);
    }
    let first: Vec<&[u8]> = lines().next().map(|line| words(line).take(4).collect()).unwrap_or_default();
    let is_label = |word: &[u8]| word.len() == 1 && b"01234rwiRWI".contains(&word[0]);
    match first[..] {
        [count, ..] if decimal(count).is_some() && is_ramulator(lines()) => Some(Form::Ramulator),
        [label, address, ..] if is_label(label) && hexadecimal(address).is_some() => Some(Form::Din),
        _ => None,
    }
}

/// Decimal numbers, some with a writeback behind them or after a count that is no label of Dinero's.
fn is_ramulator<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let is_hexadecimal = |word: &&[u8]| decimal(word).is_none() && word.iter().all(u8::is_ascii_hexdigit);
    let mut is_told = false;
    for line in lines {
        let words: Vec<&[u8]> = words(line).take(4).collect();
        if words.get(1).is_some_and(is_hexadecimal) {
            return false;
        }
        let numbers: Vec<Option<u64>> = words.into_iter().map(decimal).collect();
        is_told |= match numbers[..] {
            [Some(_), Some(_), Some(_)] => true,
            [Some(before), Some(_)] => before > 4,
            _ => false,
        };
    }
    is_told
}
