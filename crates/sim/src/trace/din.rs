//! Dinero's `din`: a label (0 reads, 1 writes, 2 fetches, 3 and 4 mean nothing here) and an address in hexadecimal.
//! Further words are ignored, as Dinero does.

use super::text_trace::{LineResult, hexadecimal, shown, words};
use super::{AccessKind, MemoryAccess};

/// Bytes of an access: Dinero assumes a word.
const WORD_BYTES: u32 = 4;

pub fn parse(line: &[u8], into: &mut Vec<MemoryAccess>) -> LineResult {
    let mut words = words(line);
    let (Some(label), address) = (words.next(), words.next()) else { return Ok(()) };
    let kind = match label {
        b"0" | b"r" | b"R" => AccessKind::Read,
        b"1" | b"w" | b"W" => AccessKind::Write,
        b"2" | b"i" | b"I" => AccessKind::Fetch,
        b"3" | b"4" => return Ok(()),
        _ => return Err(format!("the label {} is not one of 0 to 4", shown(label))),
    };
    let address = address.and_then(hexadecimal);
    let address = address.ok_or_else(|| format!("no hexadecimal address after the label: {}", shown(line)))?;
    into.push(MemoryAccess::new(kind, aligned(address), WORD_BYTES));
    Ok(())
}

/// Aligns an address, so that no access of a word reaches into a second line.
fn aligned(address: u64) -> u64 {
    address & !u64::from(WORD_BYTES - 1)
}
