//! The output of `blkparse`:
//! `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! A request has several lines. Completions (`C`) are the requests that reached the device, merged as the device saw
//! them. A trace without completions counts the issued requests (`D`), or else the queued ones (`Q`).

use super::line_fields::{self, ParsedRequest, quoted};
use super::{BlockRequest, RequestKind};

pub(super) struct Blkparse {
    /// The action whose lines count.
    pub(super) action: u8,
}

/// The actions that may count, from the nearest to the device.
pub(super) const ACTIONS: [u8; 3] = *b"CDQ";

/// All other actions. `m` is a message.
const OTHER_ACTIONS: [&[u8]; 14] =
    [b"A", b"B", b"F", b"G", b"I", b"M", b"P", b"R", b"S", b"T", b"U", b"UT", b"X", b"m"];

/// The first line of `blkparse` if its input is files.
pub(super) const INPUT: &[u8] = b"Input file ";

/// The beginnings of the lines of its summary.
const SUMMARY: [&[u8]; 17] = [
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"IO unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
    b"Throughput (R/W):",
    b"Events (",
    b"Skips:",
];

/// The minor numbers of one major number in Linux.
const MINORS: u64 = 1 << 20;

impl Blkparse {
    pub(super) fn line(&self, line: &[u8]) -> ParsedRequest {
        let mut words = line_fields::words(line);
        let Some(device) = words.next().and_then(device) else { return without_device(line) };
        for what in ["processor", "sequence number"] {
            line_fields::next_number(&mut words, what)?;
        }
        let at_ns = line_fields::time_ns(line_fields::next(&mut words, "time")?, 1_000_000_000, "time")?;
        line_fields::next_number(&mut words, "process number")?;
        let action = line_fields::next(&mut words, "action")?;
        let Some(letter) = ACTIONS.into_iter().find(|letter| action == [*letter]) else { return other(action) };
        let Some(kind) = kind(line_fields::next(&mut words, "kind of request")?) else { return Ok(None) };
        // A command that is passed through is printed in the place of a sector.
        let is_none = |word: &[u8]| word.starts_with(b"[") || word.starts_with(b"(");
        let sector = line_fields::next(&mut words, "sector")?;
        if is_none(sector) {
            return Ok(None);
        }
        let sector = line_fields::number(sector, "sector")?;
        match words.next() {
            Some(b"+") => {}
            // A request without data, or the bytes of a command that is passed through, and the command.
            Some(word) if is_none(word) => return Ok(None),
            _ => return Err("the sector is not followed by + and a count".into()),
        }
        let span = line_fields::sectors(sector, line_fields::next_number(&mut words, "count of sectors")?)?;
        if letter != self.action {
            return Ok(None);
        }
        // `blkparse -t` prints the duration between the count and the end.
        let last = words.find(|word| word.starts_with(b"[")).ok_or("the line ends before its end in brackets")?;
        if self.action == b'C' && last != b"[0]" {
            return Ok(None);
        }
        Ok(Some(BlockRequest { at_ns, kind, device, span }))
    }
}

/// Checks a line whose action does not count.
fn other(action: &[u8]) -> ParsedRequest {
    if OTHER_ACTIONS.contains(&action) {
        return Ok(None);
    }
    Err(format!("the action is {}: expected one of blkparse's, such as Q, D or C", quoted(action)))
}

/// Checks a line without a device: a part of the summary of `blkparse`, or an error.
fn without_device(line: &[u8]) -> ParsedRequest {
    let line = line.trim_ascii();
    let is_input = line.starts_with(INPUT) && line.ends_with(b" added");
    if line.is_empty() || is_input || is_head(line) || SUMMARY.iter().any(|begin| line.starts_with(begin)) {
        return Ok(None);
    }
    Err(format!("it begins with {}: expected a device such as 8,0", quoted(line)))
}

/// Returns true if the line names the subject of the lines below: `CPU0 (sda):`, `Total (sda):`, or a process, such as
/// `fio (697)` or `fio (697, ...)`.
fn is_head(line: &[u8]) -> bool {
    let Some(open) = line.windows(2).rposition(|two| two == b" (") else { return false };
    let (name, within) = (&line[..open], &line[open + 2..]);
    if within.ends_with(b"):") {
        return name == b"Total" || name.strip_prefix(b"CPU").and_then(line_fields::digits).is_some();
    }
    let number = within.strip_suffix(b", ...)").or_else(|| within.strip_suffix(b")"));
    number.and_then(line_fields::digits).is_some()
}

/// Returns a device's major and minor number, as `blkparse` writes them.
pub(super) fn name(device: u32) -> String {
    let device = u64::from(device);
    format!("{},{}", device / MINORS, device % MINORS)
}

/// Returns a device's major and minor number as one number.
pub(super) fn device(word: &[u8]) -> Option<u32> {
    let comma = word.iter().position(|byte| *byte == b',')?;
    let (major, minor) = (line_fields::digits(&word[..comma])?, line_fields::digits(&word[comma + 1..])?);
    u32::try_from(major.checked_mul(MINORS)?.checked_add(minor)?).ok()
}

/// Decodes letters such as `FWFS`: flush before, write, FUA, synchronous. Returns `None` if the request moves no data.
fn kind(rwbs: &[u8]) -> Option<RequestKind> {
    let rwbs = rwbs.strip_prefix(b"F").filter(|rest| rest.first() != Some(&b'N')).unwrap_or(rwbs);
    match rwbs.first()? {
        b'R' => Some(RequestKind::Read),
        b'W' => Some(RequestKind::Write),
        b'D' => Some(RequestKind::Trim),
        _ => None,
    }
}
