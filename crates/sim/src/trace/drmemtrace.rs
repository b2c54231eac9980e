//! DynamoRIO's drmemtrace as its `view` tool prints it: record number, instruction number, thread, then
//! `read 8 byte(s) @ 0x.. by PC 0x..`, `write ..`, `ifetch 3 byte(s) @ 0x.. ..`. Markers stand in `<>`. Each thread is
//! a core.

use super::text::{Parsed, decimal, hexadecimal, shown, words};
use super::{Access, Kind};

/// A parser that remembers which threads it has seen.
pub fn parser(cores: u16) -> impl FnMut(&[u8], &mut Vec<Access>) -> Parsed + Send {
    let mut threads: Vec<Vec<u8>> = Vec::new();
    move |line, into| {
        let Some((thread, mut access)) = parse(line)? else { return Ok(()) };
        let known = threads.iter().position(|known| known == thread);
        let index = known.unwrap_or_else(|| {
            threads.push(thread.to_vec());
            threads.len() - 1
        });
        access.core = (index % usize::from(cores.max(1))) as u16;
        into.push(access);
        Ok(())
    }
}

fn parse(line: &[u8]) -> Result<Option<(&[u8], Access)>, String> {
    let words: Vec<&[u8]> = words(line).take(12).collect();
    let Some(at) = words.iter().position(|word| *word == b"byte(s)") else { return quiet(line, &words) };
    let told = |what: &str| format!("{what}: {}", shown(line));
    let kind = at.checked_sub(2).map(|at| words[at]).ok_or_else(|| told("no kind and size before \"byte(s)\""))?;
    let kind = match kind {
        b"read" => Kind::Read,
        b"write" => Kind::Write,
        b"ifetch" => Kind::Fetch,
        other if other.starts_with(b"pref") || other.ends_with(b"flush") => return Ok(None),
        _ => return Err(told("neither read, write nor ifetch")),
    };
    let bytes = decimal(words[at - 1]).filter(|bytes| (1..=4096).contains(bytes));
    let bytes = bytes.ok_or_else(|| told("the size is none"))? as u32;
    let address = words.get(at + 2).filter(|_| words[at + 1] == b"@").and_then(|word| hexadecimal(word));
    let address = address.ok_or_else(|| told("no \"@ 0x..\" after \"byte(s)\""))?;
    let thread = at.checked_sub(3).map_or(&b""[..], |at| words[at]);
    let access = Access::new(kind, address, bytes);
    let counter = words.get(at + 5).filter(|_| words[at + 3..at + 5] == [&b"by"[..], b"PC"]);
    Ok(Some((thread, counter.and_then(|word| hexadecimal(word)).map_or(access, |counter| access.by(counter)))))
}

/// What is no access but belongs there: heads, markers, the sum at the end.
fn quiet<'a>(line: &[u8], words: &[&[u8]]) -> Result<Option<(&'a [u8], Access)>, String> {
    let begins = |with: &[u8]| words.first().is_some_and(|word| word.starts_with(with));
    let is_marker = line.contains(&b'<') || line.contains(&b'>');
    let is_head = [&b"Output"[..], b"View", b"T", b"-", b"="].into_iter().any(begins);
    // The rest of a long instruction, whose beginning is on the line before.
    let is_byte = |word: &&[u8]| word.len() == 2 && word.iter().all(u8::is_ascii_hexdigit);
    let is_rest = words.len() > 3 && words[1].ends_with(b":") && words[3..].iter().all(is_byte);
    let is_sum = words.len() <= 8 && words.last().is_some_and(|word| *word == b"instructions");
    if words.is_empty() || is_marker || is_head || is_rest || is_sum || line.ends_with(b":") {
        return Ok(None);
    }
    Err(format!("neither an access nor a marker: {}", shown(line)))
}
