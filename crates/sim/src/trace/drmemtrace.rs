//! DynamoRIO's drmemtrace as its `view` tool prints it: record number, instruction number, thread, then `read 8 byte(s)
//! @ 0x.. by PC 0x..`, `write ..`, `ifetch 3 byte(s) @ 0x.. ..`. Markers stand in `<>`. Each thread is a core.
//!
//! Views from before version 5 of the traces have no instruction numbers, and threads such as `T4711`. Later ones may
//! name the workload, as `W0.T3`. The code of an instruction is shown by byte, or by word if the trace lists only
//! registers and their dependences. Code that is too long for a line continues in the next, behind the same numbers.

use super::text_trace::{TextParser, decimal, hexadecimal, shown, words};
use super::{AccessKind, MemoryAccess};

/// Returns a parser that remembers the threads it has seen.
pub fn parser(cores: u16) -> TextParser {
    let mut threads: Vec<Vec<u8>> = Vec::new();
    Box::new(move |line, into| {
        let Some((thread, mut access)) = parse(line)? else { return Ok(()) };
        let known = threads.iter().position(|known| known == thread);
        let index = known.unwrap_or_else(|| {
            threads.push(thread.to_vec());
            threads.len() - 1
        });
        access.core = (index % usize::from(cores.max(1))) as u16;
        into.push(access);
        Ok(())
    })
}

fn parse(line: &[u8]) -> Result<Option<(&[u8], MemoryAccess)>, String> {
    let words: Vec<&[u8]> = words(line).take(12).collect();
    let Some(at) = words.iter().position(|word| *word == b"byte(s)") else { return without_access(line, &words) };
    let refusal = |what: &str| format!("{what}: {}", shown(line));
    let kind = at.checked_sub(2).map(|at| words[at]).ok_or_else(|| refusal("no kind and size before \"byte(s)\""))?;
    let kind = match kind {
        b"read" => AccessKind::Read,
        b"write" => AccessKind::Write,
        b"ifetch" => AccessKind::Fetch,
        other if other.starts_with(b"pref") || other.ends_with(b"flush") => return Ok(None),
        _ => return Err(refusal("neither read, write nor ifetch")),
    };
    let bytes = decimal(words[at - 1]).filter(|bytes| (1..=4096).contains(bytes));
    let bytes = bytes.ok_or_else(|| refusal("the size is not 1 to 4096 bytes"))? as u32;
    let address = words.get(at + 2).filter(|_| words[at + 1] == b"@").and_then(|word| hexadecimal(word));
    let address = address.ok_or_else(|| refusal("no \"@ 0x..\" after \"byte(s)\""))?;
    let thread = at.checked_sub(3).map_or(&b""[..], |at| words[at]);
    let access = MemoryAccess::new(kind, address, bytes);
    let counter = words.get(at + 5).filter(|_| words[at + 3..at + 5] == [&b"by"[..], b"PC"]);
    Ok(Some((thread, counter.and_then(|word| hexadecimal(word)).map_or(access, |counter| access.by(counter)))))
}

/// Accepts a line that has no access but belongs to the trace: a head, a marker, the sum at the end.
fn without_access<'a>(line: &[u8], words: &[&[u8]]) -> Result<Option<(&'a [u8], MemoryAccess)>, String> {
    let begins = |with: &[u8]| words.first().is_some_and(|word| word.starts_with(with));
    let is_rule = words.len() == 1 && words[0].len() > 3 && words[0].iter().all(|byte| matches!(byte, b'-' | b'='));
    let is_marker = line.contains(&b'<') || line.contains(&b'>');
    let is_head = [&b"Output"[..], b"View", b"Trace"].into_iter().any(begins);
    let is_sum = words.len() <= 8 && words.last().is_some_and(|word| *word == b"instructions");
    if words.is_empty() || is_rule || is_marker || is_head || is_rest(words) || is_sum || line.ends_with(b":") {
        return Ok(None);
    }
    Err(format!("neither an access nor a marker: {}", shown(line)))
}

/// Returns true if a line continues a long instruction of the line before: numbers, the thread, code.
fn is_rest(words: &[&[u8]]) -> bool {
    let numbers = words.iter().take(2).position(|word| word.ends_with(b":"));
    let is_code = |word: &&[u8]| matches!(word.len(), 2 | 4 | 8) && word.iter().all(u8::is_ascii_hexdigit);
    let code = numbers.and_then(|last| words.get(last + 2..)).unwrap_or_default();
    !code.is_empty() && code.iter().all(is_code)
}
