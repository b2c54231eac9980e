//! The Storage Performance Council's format: `unit,sector,bytes,opcode,seconds`; further fields are ignored.

use super::line_fields::{self, ParsedRequest, quoted};
use super::{BlockRequest, RequestKind};

pub(super) fn line(line: &[u8]) -> ParsedRequest {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut fields = line_fields::fields(line);
    let device = line_fields::device(line_fields::next(&mut fields, "unit")?, "unit")?;
    let sector = line_fields::next_number(&mut fields, "sector")?;
    let bytes = line_fields::next_number(&mut fields, "size")?;
    let kind = match line_fields::next(&mut fields, "opcode")? {
        b"R" | b"r" => RequestKind::Read,
        b"W" | b"w" => RequestKind::Write,
        word => return Err(format!("the opcode is {}: expected R or W", quoted(word))),
    };
    let at_ns = line_fields::time_ns(line_fields::next(&mut fields, "time")?, 1_000_000_000, "time")?;
    let at = line_fields::sectors(sector, 0)?.at;
    Ok(Some(BlockRequest { at_ns, kind, device, span: line_fields::span(at, bytes, 1)? }))
}
