//! Which format a trace is, by its first lines.

use super::blkparse::{self, Blkparse};
use super::format::Parser;
use super::iolog::{HEADS, Iolog};
use super::line;
use super::msr::Msr;
use super::plain::Plain;

/// What reads a trace that begins with `begin`; `None` where it is none that is known.
pub(super) fn parser(begin: &[u8], page_bytes: u64) -> Option<Parser> {
    let text = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#");
    let first = begin.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(text)?;
    let words: Vec<&[u8]> = line::words(first).collect();
    let commas = first.iter().filter(|byte| **byte == b',').count();
    if HEADS.contains(&first) {
        return Some(Parser::Iolog(Iolog::default()));
    }
    if matches!(words[0], b"W" | b"R" | b"T" | b"w" | b"r" | b"t") {
        return Some(Parser::Plain(Plain { page_bytes }));
    }
    if words.len() >= 6 && blkparse::device(words[0]).is_some() {
        return Some(Parser::Blkparse(Blkparse { action: action(begin) }));
    }
    if commas == 6 {
        return Some(Parser::Msr(Msr::default()));
    }
    if commas >= 4 {
        return Some(Parser::Spc);
    }
    let is_number = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    (words.len() == 5 && words[..4].iter().all(|word| is_number(word))).then_some(Parser::DiskSim)
}

/// The action nearest to the device that the first lines have.
fn action(begin: &[u8]) -> u8 {
    let named = |action: &&u8| {
        let mut lines = begin.split(|byte| *byte == b'\n');
        lines.any(|line| line::words(line).nth(5).is_some_and(|word| word == [**action]))
    };
    *blkparse::ACTIONS.iter().find(named).unwrap_or(&blkparse::ACTIONS[0])
}
