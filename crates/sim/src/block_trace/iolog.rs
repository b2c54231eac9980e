//! fio's iolog, with a head and one action a line. Version 2 writes `file action offset bytes`, with lines `file wait
//! microseconds` between; version 3 writes a time in microseconds first.

use super::line_fields::{self, ParsedRequest, quoted};
use super::{BlockRequest, RequestKind};

#[derive(Default)]
pub(super) struct Iolog {
    version: IologVersion,
    /// The sum of the waiting times of version 2 so far.
    waited_ns: u64,
    /// Names of the files, in the order in which the trace adds or uses them.
    files: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum IologVersion {
    /// The head was not read yet.
    #[default]
    Unknown,
    /// Version 2, with times to wait.
    Two,
    /// Version 3, with times.
    Three,
}

/// The first line of each version.
pub(super) const HEADS: [&[u8]; 2] = [b"fio version 2 iolog", b"fio version 3 iolog"];

/// The unit of both versions' times.
const TICK_NS: u64 = 1000;

impl Iolog {
    pub(super) fn line(&mut self, line: &[u8]) -> ParsedRequest {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        if self.version == IologVersion::Unknown {
            self.version = match HEADS.iter().position(|head| *head == line) {
                Some(0) => IologVersion::Two,
                Some(_) => IologVersion::Three,
                None => return Err(format!("the head is {}: expected the head of version 2 or 3", quoted(line))),
            };
            return Ok(None);
        }
        let mut words = line_fields::words(line);
        let at_ns = match self.version {
            IologVersion::Three => line_fields::next_number(&mut words, "time")?.saturating_mul(TICK_NS),
            _ => self.waited_ns,
        };
        let file = self.number(line_fields::next(&mut words, "file name")?);
        let action = line_fields::next(&mut words, "action")?;
        let kind = match action {
            b"read" => RequestKind::Read,
            b"write" => RequestKind::Write,
            b"trim" => RequestKind::Trim,
            b"wait" if self.version == IologVersion::Two => {
                let ns = line_fields::next_number(&mut words, "time to wait")?.saturating_mul(TICK_NS);
                self.waited_ns = self.waited_ns.saturating_add(ns);
                return Ok(None);
            }
            b"add" | b"open" | b"close" | b"sync" | b"datasync" | b"sync_file_range" | b"wait" => return Ok(None),
            _ => return Err(format!("the action is {}: expected read, write, trim, sync or the like", quoted(action))),
        };
        let at = line_fields::next_number(&mut words, "offset")?;
        let bytes = line_fields::next_number(&mut words, "length")?;
        Ok(Some(BlockRequest { at_ns, kind, device: file, span: line_fields::span(at, bytes, 1)? }))
    }

    /// Returns the name of a file for messages: the number by which the user chooses it, and its name.
    pub(super) fn name(&self, file: u32) -> String {
        let name = self.files.get(file as usize).map_or_else(String::new, |name| format!(" ({})", quoted(name)));
        format!("{file}{name}")
    }

    fn number(&mut self, file: &[u8]) -> u32 {
        let known = self.files.iter().position(|known| known == file);
        known.unwrap_or_else(|| {
            self.files.push(file.to_vec());
            self.files.len() - 1
        }) as u32
    }
}
