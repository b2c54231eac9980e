//! The plain format: `W|R|T page count`.

use super::line_fields::{self, ParsedRequest, quoted};
use super::{BlockRequest, RequestKind};

pub(super) struct Plain {
    pub(super) page_bytes: u64,
}

impl Plain {
    pub(super) fn line(&self, line: &[u8]) -> ParsedRequest {
        let mut words = line_fields::words(line);
        let kind = match words.next() {
            None => return Ok(None),
            Some(b"W" | b"w") => RequestKind::Write,
            Some(b"R" | b"r") => RequestKind::Read,
            Some(b"T" | b"t") => RequestKind::Trim,
            Some(word) => return Err(format!("it begins with {}: expected W, R or T", quoted(word))),
        };
        let page = line_fields::next_number(&mut words, "page")?;
        let count = line_fields::next_number(&mut words, "count")?;
        if let Some(word) = words.next() {
            return Err(format!("{} follows the count", quoted(word)));
        }
        let span = line_fields::span(page, count, self.page_bytes)?;
        Ok(Some(BlockRequest { at_ns: 0, kind, device: 0, span }))
    }
}
