//! The redo log that recovery replays: the committed records of all lanes, read and checked before anything is written.
//!
//! - Y1. Recovery writes nothing until it knows that this program can have written every record, and has checked the
//!   pool as it will be afterwards through [`Redo::preview`]. So a pool that cannot be opened is not written.
//! - Y2. Recovery trusts a record and the retired word because they are visible, but a killed process may have left
//!   them visible and not durable. They are made durable before anything that depends on them is stored: otherwise a
//!   power failure during recovery could keep half of a transaction's home writes and lose its record.
//! - Y3. The next sequence is below a bound, so that every later sequence fits a record and a word.

use ferrite_memory::{Memory, Span};

use crate::bounds::{SEQUENCE_BOUND, out_of_bounds};
use crate::checked_record::CheckedRecord;
use crate::checked_word::{NUMBER_MAX, unseal};
use crate::lane::lane_content::{LaneHole, committed};
use crate::layout::{LANE, LANE_COUNT, LANES, RETIRED};
use crate::operation::apply;
use crate::overlay::MemoryOverlay;
use crate::{Error, Result};

/// The number of replayed transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCount {
    /// Transactions that were committed and applied again.
    pub transactions: u64,
}

/// The records to replay, in sequence.
#[derive(Debug)]
pub struct Redo {
    /// Both copies of the retired word; `None` for a copy that does not verify.
    words: [Option<u64>; 2],
    retired: u64,
    records: Vec<CheckedRecord>,
    /// The lanes that have records to replay.
    lanes: Vec<Span>,
    /// The damaged places, each with the number of its lane.
    holes: Vec<(u64, LaneHole)>,
}

impl Redo {
    /// Reads the lanes. Writes nothing.
    pub fn read(memory: &dyn Memory, salt: u32) -> Result<Self> {
        let words = RETIRED.map(|at| unseal(salt, memory.load_word(at)).filter(|retired| *retired < NUMBER_MAX));
        let retired = words.into_iter().flatten().max();
        let retired = retired.ok_or_else(|| Error::corrupt("the retired word", RETIRED[0]))?;
        let (mut records, mut lanes, mut holes) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = vec![0; LANE as usize];
        for index in 0..LANE_COUNT as u64 {
            let lane = Span::new(LANES + index * LANE, LANE);
            memory.load(lane.at, &mut bytes);
            let found = committed(&bytes, salt, retired);
            if !found.records.is_empty() {
                lanes.push(lane);
            }
            records.extend(found.records);
            holes.extend(found.holes.into_iter().map(|hole| (index, hole)));
        }
        records.sort_by_key(|record| record.sequence);
        let redo = Self { words, retired, records, lanes, holes };
        redo.ensure_bounded()?;
        Ok(redo)
    }

    /// Refuses sequences from which later transactions cannot be counted (Y3).
    fn ensure_bounded(&self) -> Result<()> {
        let next = self.next();
        if next < SEQUENCE_BOUND {
            return Ok(());
        }
        match self.records.last() {
            Some(last) => Err(Error::corrupt(out_of_bounds("the sequence of a transaction", last.sequence), LANES)),
            None => Err(Error::corrupt(out_of_bounds("the retired word", next), RETIRED[0])),
        }
    }

    /// Returns true if both copies of the retired word are equal.
    pub fn has_both_words(&self) -> bool {
        self.words[0] == self.words[1]
    }

    /// Returns the byte offsets of the copies of the retired word that do not verify.
    pub fn damaged_words(&self) -> impl Iterator<Item = u64> + '_ {
        RETIRED.into_iter().zip(self.words).filter(|(_, word)| word.is_none()).map(|(at, _)| at)
    }

    /// Returns an error for each transaction that damage of the lanes lost (lane L7). A retired record is not lost,
    /// because its writes are at home.
    pub fn lost(&self) -> Vec<Error> {
        self.holes.iter().filter_map(|(lane, hole)| self.lost_error(*lane, hole)).collect()
    }

    fn lost_error(&self, lane: u64, hole: &LaneHole) -> Option<Error> {
        let place = |sequence| self.records.partition_point(|record| record.sequence < sequence);
        let known = &self.records[place(hole.sequences.start)..place(hole.sequences.end)];
        let missing = hole.sequences.end - hole.sequences.start - known.len() as u64;
        let first = hole.sequences.clone().zip(known).find(|(sequence, record)| *sequence != record.sequence);
        let first = first.map_or(hole.sequences.start + known.len() as u64, |(sequence, _)| sequence);
        let which = match missing {
            0 => return None,
            1 => format!("transaction {first} in lane {lane}"),
            _ => format!("a transaction between {} and {} in lane {lane}", first - 1, hole.sequences.end),
        };
        let what = format!("{which}, before committed transaction {},", hole.sequences.end);
        Some(Error::corrupt(what, LANES + lane * LANE + hole.at))
    }

    /// Returns the number of transactions to replay.
    pub fn replay(&self) -> ReplayCount {
        ReplayCount { transactions: self.records.len() as u64 }
    }

    /// Returns the sequence after all committed transactions.
    pub fn next(&self) -> u64 {
        self.records.last().map_or(self.retired, |record| record.sequence + 1).max(1)
    }

    /// Returns the memory as it will be after the replay. Refuses a record that no transaction writes (Y1).
    pub fn preview<'memory>(&self, memory: &'memory dyn Memory) -> Result<MemoryOverlay<&'memory dyn Memory>> {
        let preview = MemoryOverlay::new(memory);
        self.apply(&preview)?;
        Ok(preview)
    }

    /// Applies all records. Their home writes are durable on return; the retired word does not move.
    pub fn run(&self, memory: &dyn Memory) -> Result<()> {
        RETIRED.iter().for_each(|at| memory.flush(Span::new(*at, 8)));
        self.lanes.iter().for_each(|lane| memory.flush(*lane));
        memory.drain()?;
        let home = self.apply(memory)?;
        home.iter().for_each(|span| memory.flush(*span));
        Ok(memory.drain()?)
    }

    fn apply(&self, memory: &dyn Memory) -> Result<Vec<Span>> {
        let mut home = Vec::new();
        for record in &self.records {
            apply(memory, &record.payload, |span| home.push(span))?;
        }
        Ok(home)
    }
}
