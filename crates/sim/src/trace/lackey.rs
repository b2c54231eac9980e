//! `valgrind --tool=lackey --trace-mem=yes`: `I  addr,size`, ` L addr,size`, ` S addr,size`, ` M addr,size` (a load and
//! a store), in hexadecimal and decimal. Valgrind's own messages begin with `==`, `--` or `**`.

use super::text_trace::{LineResult, decimal, hexadecimal, shown};
use super::{AccessKind, MemoryAccess};

/// Returns true if a line is a message of Valgrind, or of the program through Valgrind.
pub fn is_message(line: &[u8]) -> bool {
    [b"==", b"--", b"**"].into_iter().any(|begin| line.starts_with(begin))
}

pub fn parse(line: &[u8], into: &mut Vec<MemoryAccess>) -> LineResult {
    if line.is_empty() || is_message(line) {
        return Ok(());
    }
    let refuse = |what: &str| Err(format!("{what}: {}", shown(line)));
    let (kinds, rest): (&[AccessKind], _) = match line.get(..3) {
        Some(b"I  ") => (&[AccessKind::Fetch], &line[3..]),
        Some(b" L ") => (&[AccessKind::Read], &line[3..]),
        Some(b" S ") => (&[AccessKind::Write], &line[3..]),
        Some(b" M ") => (&[AccessKind::Read, AccessKind::Write], &line[3..]),
        _ => return refuse("lines begin with \"I  \", \" L \", \" S \", \" M \" or \"==\""),
    };
    let Some(comma) = rest.iter().position(|byte| *byte == b',') else { return refuse("no comma after the address") };
    let Some(address) = hexadecimal(&rest[..comma]) else { return refuse("the address is not a hexadecimal number") };
    let bytes = decimal(&rest[comma + 1..]).and_then(|bytes| u32::try_from(bytes).ok());
    let Some(bytes) = bytes.filter(|bytes| (1..=4096).contains(bytes)) else {
        return refuse("the size is not 1 to 4096 bytes");
    };
    into.extend(kinds.iter().map(|kind| MemoryAccess::new(*kind, address, bytes)));
    Ok(())
}
