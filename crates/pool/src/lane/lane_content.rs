//! The content of a lane: its committed records and its damaged places.

use std::ops::Range;

use crate::checked_record::{ALIGN, CheckedRecord, header};
use crate::checked_word::NUMBER_MAX;

/// The content of one lane.
#[derive(Debug, Default)]
pub struct LaneContent {
    /// The records that are committed and not retired (L1).
    pub records: Vec<CheckedRecord>,
    /// The damaged places, in order (L7).
    pub holes: Vec<LaneHole>,
}

/// A place where no record verifies although an unretired record follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHole {
    /// The byte offset from the start of the lane.
    pub at: u64,
    /// The sequences that the lost records may have had, without retired ones; may be empty.
    pub sequences: Range<u64>,
}

/// Returns the committed records of one lane that are not retired, and its holes. `bytes` may be anything.
pub fn committed(bytes: &[u8], salt: u32, retired: u64) -> LaneContent {
    let (mut found, mut at, mut last) = (LaneContent::default(), 0, 0);
    loop {
        let Some(record) = record_at(bytes, at, salt, last + 1) else {
            let lost_min = retired.max(last + 1);
            let Some((next, record)) = first_behind(bytes, at, salt, lost_min) else { return found };
            found.holes.push(LaneHole { at: at as u64, sequences: lost_min..record.sequence });
            at = next;
            continue;
        };
        at += record.footprint();
        last = record.sequence;
        if record.sequence >= retired {
            found.records.push(record);
        }
    }
}

/// Returns the record at `at` if its sequence is `min` or more.
fn record_at(bytes: &[u8], at: usize, salt: u32, min: u64) -> Option<CheckedRecord> {
    let rest = bytes.get(at..)?;
    let (_, _, sequence) = header(rest)?;
    (min..NUMBER_MAX).contains(&sequence).then(|| CheckedRecord::parse(salt, rest)).flatten()
}

/// Returns the first place behind `at` with a record of sequence `min` or more. Most of a lane is zeros, which are
/// skipped in large pieces.
fn first_behind(bytes: &[u8], at: usize, salt: u32, min: u64) -> Option<(usize, CheckedRecord)> {
    const PIECE: usize = 64 * ALIGN;
    let pieces = bytes.get(at..)?.chunks(PIECE).zip((at..).step_by(PIECE));
    let written = pieces.filter(|(piece, _)| **piece != [0; PIECE][..piece.len()]);
    let mut places = written.flat_map(|(piece, start)| (start..start + piece.len()).step_by(ALIGN));
    places.find_map(|place| Some((place, record_at(bytes, place, salt, min)?)))
}
