//! `W|R|T page count`.

use super::line::{self, Parsed, quoted};
use super::{Kind, Request};

pub(super) struct Plain {
    pub(super) page_bytes: u64,
}

impl Plain {
    pub(super) fn line(&self, line: &[u8]) -> Parsed {
        let mut words = line::words(line);
        let kind = match words.next() {
            None => return Ok(None),
            Some(b"W" | b"w") => Kind::Write,
            Some(b"R" | b"r") => Kind::Read,
            Some(b"T" | b"t") => Kind::Trim,
            Some(word) => return Err(format!("it begins with {}: expected W, R or T", quoted(word))),
        };
        let page = line::next_number(&mut words, "page")?;
        let count = line::next_number(&mut words, "count")?;
        if let Some(word) = words.next() {
            return Err(format!("it goes on with {} after the count", quoted(word)));
        }
        let span = line::span(page, count, self.page_bytes)?;
        Ok(Some(Request { at_ns: 0, kind, device: 0, span }))
    }
}
