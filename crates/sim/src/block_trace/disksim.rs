//! DiskSim's ASCII format, which MQSim and the SSD extension read too: `time device sector sectors flags`. DiskSim's
//! time is in milliseconds with a fraction or an exponent; MQSim's time is a whole number of nanoseconds.

use super::line_fields::{self, ParsedRequest};
use super::{BlockRequest, RequestKind};

pub(super) fn line(line: &[u8]) -> ParsedRequest {
    let mut words = line_fields::words(line);
    let Some(time) = words.next() else { return Ok(None) };
    let is_fraction = time.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let unit_ns = if is_fraction { 1_000_000 } else { 1 };
    let at_ns = line_fields::time_ns(time, unit_ns, "time")?;
    let device = line_fields::device(line_fields::next(&mut words, "device")?, "device")?;
    let sector = line_fields::next_number(&mut words, "sector")?;
    let sectors = line_fields::next_number(&mut words, "count of sectors")?;
    let flags = flags(line_fields::next(&mut words, "flags")?)?;
    if words.next().is_some() {
        return Err("the line has more than five words".into());
    }
    let kind = if flags & 1 == 1 { RequestKind::Read } else { RequestKind::Write };
    Ok(Some(BlockRequest { at_ns, kind, device, span: line_fields::sectors(sector, sectors)? }))
}

/// Reads the flags, which DiskSim writes in hexadecimal.
fn flags(word: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| format!("the flags are {}: expected a number", line_fields::quoted(word)))
}
