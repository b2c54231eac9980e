//! What `blkparse` prints:
//! `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! A request has several lines. Completions (`C`) are those that reached the device, merged as it saw them; a trace
//! without them counts by what was issued (`D`), or else queued (`Q`).

use super::line::{self, Parsed, quoted};
use super::{Kind, Request};

pub(super) struct Blkparse {
    /// The action that counts.
    pub(super) action: u8,
}

/// The actions that may count, those nearest to the device first.
pub(super) const ACTIONS: [u8; 3] = *b"CDQ";

/// Minor numbers of a major one, in Linux.
const MINORS: u64 = 1 << 20;

impl Blkparse {
    pub(super) fn line(&self, line: &[u8]) -> Parsed {
        let mut words = line::words(line);
        let Some(device) = words.next().and_then(device) else { return rest(line) };
        for what in ["processor", "sequence number"] {
            line::next_number(&mut words, what)?;
        }
        let at_ns = line::time_ns(line::next(&mut words, "time")?, 1_000_000_000, "time")?;
        line::next_number(&mut words, "process number")?;
        let action = line::next(&mut words, "action")?;
        if action != [self.action] {
            return Ok(None);
        }
        let Some(kind) = kind(line::next(&mut words, "kind of request")?) else { return Ok(None) };
        // A command that is passed through is printed in the place of a sector.
        let is_none = |word: &[u8]| word.starts_with(b"[") || word.starts_with(b"(");
        let Some(sector) = words.next().filter(|word| !is_none(word)) else { return Ok(None) };
        let sector = line::number(sector, "sector")?;
        match words.next() {
            Some(b"+") => {}
            // A completion of something without data.
            Some(word) if word.starts_with(b"[") => return Ok(None),
            _ => return Err("the sector is not followed by + and a count".into()),
        }
        let sectors = line::next_number(&mut words, "count of sectors")?;
        // `blkparse -t` tells between how long it took.
        let last = words.find(|word| word.starts_with(b"[")).ok_or("the line ends before its end in brackets")?;
        if self.action == b'C' && last != b"[0]" {
            return Ok(None);
        }
        Ok(Some(Request { at_ns, kind, device, span: line::sectors(sector, sectors)? }))
    }
}

/// What `blkparse` says at its end begins with a word and no device.
fn rest(line: &[u8]) -> Parsed {
    let line = line.trim_ascii();
    let is_summary = line.is_empty() || line[0].is_ascii_alphabetic();
    if is_summary { Ok(None) } else { Err(format!("it begins with {}: expected a device such as 8,0", quoted(line))) }
}

/// A device's major and minor number, as `blkparse` writes them.
pub(super) fn name(device: u32) -> String {
    let device = u64::from(device);
    format!("{},{}", device / MINORS, device % MINORS)
}

/// A device's major and minor number in one.
pub(super) fn device(word: &[u8]) -> Option<u32> {
    let comma = word.iter().position(|byte| *byte == b',')?;
    let (major, minor) = (line::digits(&word[..comma])?, line::digits(&word[comma + 1..])?);
    u32::try_from(major.checked_mul(MINORS)?.checked_add(minor)?).ok()
}

/// From letters such as `FWFS`: a flush before, write, FUA, synchronous. `None` for what moves no data.
fn kind(rwbs: &[u8]) -> Option<Kind> {
    let rwbs = rwbs.strip_prefix(b"F").filter(|rest| rest.first() != Some(&b'N')).unwrap_or(rwbs);
    match rwbs.first()? {
        b'R' => Some(Kind::Read),
        b'W' => Some(Kind::Write),
        b'D' => Some(Kind::Trim),
        _ => None,
    }
}
