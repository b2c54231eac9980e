//! Microsoft Research Cambridge's CSV: `filetime,host,disk,type,offset,bytes`, and usually `,response`. The trace
//! counts Windows' times in units of 100 ns since 1601; here the times begin with the first request.

use super::line_fields::{self, ParsedRequest, quoted};
use super::{BlockRequest, RequestKind};

const TICK_NS: u64 = 100;

#[derive(Default)]
pub(super) struct Msr {
    first: Option<u64>,
    is_head_passed: bool,
}

impl Msr {
    pub(super) fn line(&mut self, line: &[u8]) -> ParsedRequest {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let is_first = !std::mem::replace(&mut self.is_head_passed, true);
        if is_first && line.starts_with(b"Timestamp") {
            return Ok(None);
        }
        let mut fields = line_fields::fields(line);
        let time = line_fields::next_number(&mut fields, "time")?;
        line_fields::next(&mut fields, "host")?;
        let device = line_fields::device(line_fields::next(&mut fields, "disk")?, "disk")?;
        let kind = match line_fields::next(&mut fields, "type")? {
            word if word.eq_ignore_ascii_case(b"read") => RequestKind::Read,
            word if word.eq_ignore_ascii_case(b"write") => RequestKind::Write,
            word => return Err(format!("the type is {}: expected Read or Write", quoted(word))),
        };
        let at = line_fields::next_number(&mut fields, "offset")?;
        let bytes = line_fields::next_number(&mut fields, "size")?;
        let since = time.saturating_sub(*self.first.get_or_insert(time));
        Ok(Some(BlockRequest {
            at_ns: since.saturating_mul(TICK_NS),
            kind,
            device,
            span: line_fields::span(at, bytes, 1)?,
        }))
    }
}
