//! Which format a trace is, by its first lines.

use super::blkparse::{self, Blkparse};
use super::format::{Format, Parser};
use super::iolog::{HEADS, Iolog};
use super::line;
use super::msr::Msr;
use super::plain::Plain;

/// What reads a trace of `format` that begins with `begin`.
pub(super) fn parser(format: Format, begin: &[u8], page_bytes: u64) -> Parser {
    match format {
        Format::Plain => Parser::Plain(Plain { page_bytes }),
        Format::DiskSim => Parser::DiskSim,
        Format::Spc => Parser::Spc,
        Format::Msr => Parser::Msr(Msr::default()),
        Format::Blkparse => Parser::Blkparse(Blkparse { action: action(begin) }),
        Format::Iolog => Parser::Iolog(Iolog::default()),
    }
}

/// The format of a trace that begins with `begin`; `None` where it is none that is known.
pub(super) fn format(begin: &[u8]) -> Option<Format> {
    let text = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#");
    let first = begin.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(text)?;
    if first.starts_with(blkparse::INPUT) {
        return Some(Format::Blkparse);
    }
    let words: Vec<&[u8]> = line::words(first).collect();
    let commas = first.iter().filter(|byte| **byte == b',').count();
    if HEADS.contains(&first) {
        return Some(Format::Iolog);
    }
    if matches!(words[0], b"W" | b"R" | b"T" | b"w" | b"r" | b"t") {
        return Some(Format::Plain);
    }
    if words.len() >= 6 && blkparse::device(words[0]).is_some() {
        return Some(Format::Blkparse);
    }
    // SPC may have two fields of anybody's more, and then has as many as MSR.
    let is_opcode = |field: &[u8]| matches!(field, b"R" | b"W" | b"r" | b"w");
    if commas == 6 && !line::fields(first).nth(3).is_some_and(is_opcode) {
        return Some(Format::Msr);
    }
    if commas >= 4 {
        return Some(Format::Spc);
    }
    let is_number = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    (words.len() == 5 && words[..4].iter().all(|word| is_number(word))).then_some(Format::DiskSim)
}

/// The action nearest to the device that the first lines have.
fn action(begin: &[u8]) -> u8 {
    let named = |action: &&u8| {
        let mut lines = begin.split(|byte| *byte == b'\n');
        lines.any(|line| line::words(line).nth(5).is_some_and(|word| word == [**action]))
    };
    *blkparse::ACTIONS.iter().find(named).unwrap_or(&blkparse::ACTIONS[0])
}
