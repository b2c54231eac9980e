//! `valgrind --tool=lackey --trace-mem=yes`: `I  addr,size`, ` L addr,size`, ` S addr,size`, ` M addr,size` (a load and
//! a store), in hexadecimal and decimal. Valgrind's own messages begin with `==`, `--` or `**`.

use super::text_trace::{LineResult, decimal, hexadecimal, shown};
use super::{AccessKind, MemoryAccess};

/// Whether a line is Valgrind's own, or the program's by way of it.
pub fn is_message(line: &[u8]) -> bool {
    [b"==", b"--", b"**"].into_iter().any(|begin| line.starts_with(begin))
}

pub fn parse(line: &[u8], into: &mut Vec<MemoryAccess>) -> LineResult {
    if line.is_empty() || is_message(line) {
        return Ok(());
    }
    let told = |what: &str| Err(format!("{what}: {}", shown(line)));
    let (kinds, rest): (&[AccessKind], _) = match line.get(..3) {
        Some(b"I  ") => (&[AccessKind::Fetch], &line[3..]),
        Some(b" L ") => (&[AccessKind::Read], &line[3..]),
        Some(b" S ") => (&[AccessKind::Write], &line[3..]),
        Some(b" M ") => (&[AccessKind::Read, AccessKind::Write], &line[3..]),
        _ => return told("lines begin with \"I  \", \" L \", \" S \", \" M \" or \"==\""),
    };
    let Some(comma) = rest.iter().position(|byte| *byte == b',') else { return told("no comma after the address") };
    let Some(address) = hexadecimal(&rest[..comma]) else { return told("the address is no hexadecimal number") };
    let bytes = decimal(&rest[comma + 1..]).and_then(|bytes| u32::try_from(bytes).ok());
    let Some(bytes) = bytes.filter(|bytes| (1..=4096).contains(bytes)) else { return told("the size is none") };
    into.extend(kinds.iter().map(|kind| MemoryAccess::new(*kind, address, bytes)));
    Ok(())
}
