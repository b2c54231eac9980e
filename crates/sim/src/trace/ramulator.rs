//! Ramulator's CPU traces: the number of other instructions before, the address of a read, and optionally the address
//! of a writeback. Addresses are decimal, or hexadecimal behind `0x`.

use super::text_trace::{LineResult, decimal, hexadecimal, shown, words};
use super::{AccessKind, MemoryAccess};

pub fn parse(line: &[u8], into: &mut Vec<MemoryAccess>) -> LineResult {
    let words: Vec<&[u8]> = words(line).take(4).collect();
    let (read, written) = match words[..] {
        [] => return Ok(()),
        [before, read] if decimal(before).is_some() => (read, None),
        [before, read, written] if decimal(before).is_some() => (read, Some(written)),
        _ => return Err(format!("expected a count and one or two addresses: {}", shown(line))),
    };
    let one = |word: &[u8]| address(word).ok_or_else(|| format!("{} is not an address", shown(word)));
    into.push(MemoryAccess::new(AccessKind::Read, one(read)?, 1));
    if let Some(written) = written {
        into.push(MemoryAccess::new(AccessKind::Write, one(written)?, 1));
    }
    Ok(())
}

fn address(word: &[u8]) -> Option<u64> {
    if word.starts_with(b"0x") || word.starts_with(b"0X") { hexadecimal(word) } else { decimal(word) }
}
