//! fio's iolog, with a head and one action a line: `file action offset bytes` in version 2, after a time in version 3
//! (in microseconds as we write it; fio itself writes milliseconds).

use super::line::{self, Parsed, quoted};
use super::{Kind, Request};

#[derive(Default)]
pub(super) struct Iolog {
    version: Version,
    /// Names of the files, in the order in which they came.
    files: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Version {
    /// The head has not come yet.
    #[default]
    Unknown,
    /// Without times.
    Two,
    /// With times.
    Three,
}

/// What fio writes first.
pub(super) const HEADS: [&[u8]; 2] = [b"fio version 2 iolog", b"fio version 3 iolog"];

/// Unit of version 3's times.
const TICK_NS: u64 = 1000;

impl Iolog {
    pub(super) fn line(&mut self, line: &[u8]) -> Parsed {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        if self.version == Version::Unknown {
            self.version = match HEADS.iter().position(|head| *head == line) {
                Some(0) => Version::Two,
                Some(_) => Version::Three,
                None => return Err(format!("the head is {}: expected that of version 2 or 3", quoted(line))),
            };
            return Ok(None);
        }
        let mut words = line::words(line);
        let at_ns = match self.version {
            Version::Three => line::next_number(&mut words, "time")?.saturating_mul(TICK_NS),
            _ => 0,
        };
        let file = line::next(&mut words, "file name")?;
        let action = line::next(&mut words, "action")?;
        let kind = match action {
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            b"add" | b"open" | b"close" | b"sync" | b"datasync" | b"wait" => return Ok(None),
            _ => return Err(format!("the action is {}: expected read, write, trim, sync or the like", quoted(action))),
        };
        let at = line::next_number(&mut words, "offset")?;
        let bytes = line::next_number(&mut words, "length")?;
        Ok(Some(Request { at_ns, kind, device: self.number(file), span: line::span(at, bytes, 1)? }))
    }

    fn number(&mut self, file: &[u8]) -> u32 {
        let known = self.files.iter().position(|known| known == file);
        known.unwrap_or_else(|| {
            self.files.push(file.to_vec());
            self.files.len() - 1
        }) as u32
    }
}
