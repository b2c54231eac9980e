//! The Storage Performance Council's format: `unit,sector,bytes,opcode,seconds`, and what else anybody adds.

use super::line::{self, Parsed, quoted};
use super::{Kind, Request};

pub(super) fn line(line: &[u8]) -> Parsed {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut fields = line::fields(line);
    let device = line::device(line::next(&mut fields, "unit")?, "unit")?;
    let sector = line::next_number(&mut fields, "sector")?;
    let bytes = line::next_number(&mut fields, "size")?;
    let kind = match line::next(&mut fields, "opcode")? {
        b"R" | b"r" => Kind::Read,
        b"W" | b"w" => Kind::Write,
        word => return Err(format!("the opcode is {}: expected R or W", quoted(word))),
    };
    let at_ns = line::time_ns(line::next(&mut fields, "time")?, 1_000_000_000, "time")?;
    let at = line::sectors(sector, 0)?.at;
    Ok(Some(Request { at_ns, kind, device, span: line::span(at, bytes, 1)? }))
}
