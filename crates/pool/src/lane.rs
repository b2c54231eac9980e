//! Lanes: where transactions commit, many at once.
//!
//! Each lane is 64 KiB of [`record`](crate::checked_record)s. A committing thread takes a lane, takes the next sequence
//! number, writes one record and fences once: it is committed. Then it applies the record's writes to their homes.
//!
//! - L1. A transaction is committed when its record verifies in a lane, every record before it there has a smaller
//!   sequence, and its own is not below the retired word. Records below it may stand before it in the lane: the word
//!   moves when any lane is full.
//! - L2. Conflicting transactions are committed in the order of their sequence: the caller holds its locks from
//!   before the sequence is taken until after the writes are applied.
//! - L3. A record is overwritten only after the retired word above it is durable.
//! - L4. The retired word is moved to H only after the home writes of every transaction below H, in every lane, are
//!   durable. So no older record can be replayed over a younger write.
//!   The word is there twice. Either alone will do, since all below it is at home, and the larger one is believed.
//! - L5. Recovery applies the records of L1 of all lanes in sequence, makes that durable, then moves the retired word;
//!   interrupted anywhere it does the same again (see [`redo`](crate::redo)).
//! - L6. What transactions write is written by transactions alone, until its space is free; and space is free only when
//!   no record that writes to it can be replayed. So replay never writes into what another owner has stored since.
//! - L7. A crash may tear the last record of a lane and no other: the one before was durable when it began. Behind it
//!   lie records of earlier turns, which are retired (L3). So an unretired record behind one that does not verify says
//!   that memory was damaged, and where; the pool is refused. For this a lane in which a record could not be made
//!   durable, or at which a panic came between, takes no further one, and with it no other lane.
//! - L8. Home writes are cached stores, and nobody flushes them before L4 does: until then the record is what lasts of
//!   them, whatever a crash keeps in their lines. A killed process leaves them visible; recovery stores them again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferrite_memory::{Memory, Scheme, Span, spin_until};
use parking_lot::{Mutex, MutexGuard};

use crate::checked_record::{HEADER, RecordDraft, footprint};
use crate::checked_word::seal;
use crate::layout::{LANE, LANE_COUNT, LANES, RETIRED};
use crate::operation::apply;
use crate::redo::Redo;
use crate::thread_shard::thread_shard;
use crate::{Error, Result};

mod home_lines;
pub(crate) mod lane_content;

use home_lines::HomeLines;

/// Largest payload of one transaction in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 10;

/// A lane that has begun a commit but does not know its sequence yet.
const STARTING: u64 = u64::MAX;

#[derive(Debug, Default)]
struct LaneWriter {
    used: u64,
    last: u64,
}

#[derive(Debug, Default)]
struct Lane {
    writer: Mutex<LaneWriter>,
    /// Sequence of the commit that is under way, [`STARTING`], or 0.
    under_way: AtomicU64,
    /// Home writes that are applied and maybe not durable.
    home: Mutex<HomeLines>,
}

/// A commit that is under way. Dropped before it has ended, by a panic, it leaves a record of which nobody knows what it is.
struct PendingCommit<'a> {
    lanes: &'a LaneSet,
    lane: &'a Lane,
    sequence: u64,
    has_ended: bool,
}

impl Drop for PendingCommit<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lanes.failed.store(true, Ordering::SeqCst);
        }
        self.lane.under_way.store(0, Ordering::Release);
    }
}

/// All lanes of a pool.
#[derive(Debug)]
pub struct LaneSet {
    /// On the heap: a pool is opened by threads with little stack too.
    lanes: Box<[Lane]>,
    salt: u32,
    next: AtomicU64,
    retired: AtomicU64,
    retiring: Mutex<()>,
    /// A record could not be made durable (L7), or maybe was not applied (L4).
    failed: AtomicBool,
}

impl LaneSet {
    /// Clears the lanes of a new pool, whole: records of an earlier life of the same pool, which a restore into it
    /// leaves, would verify behind the first new ones. Durable with the caller's next settle.
    pub fn format(memory: &dyn Memory, salt: u32) {
        memory.zero(Span::new(LANES, LANE_COUNT as u64 * LANE), Scheme::Nt);
        RETIRED.iter().for_each(|at| memory.store(*at, &seal(salt, 1).to_le_bytes(), Scheme::Flush));
    }

    /// Recovers (L5). Durable on return.
    pub fn recover(memory: &dyn Memory, salt: u32, redo: &Redo) -> Result<Self> {
        redo.run(memory)?;
        let next = redo.next();
        if redo.replay().transactions > 0 || !redo.has_both_words() {
            store_retired(memory, seal(salt, next))?;
        }
        Ok(Self {
            lanes: std::iter::repeat_with(Lane::default).take(LANE_COUNT).collect(),
            salt,
            next: AtomicU64::new(next),
            retired: AtomicU64::new(next),
            retiring: Mutex::new(()),
            failed: AtomicBool::new(false),
        })
    }

    /// Commits one transaction; durable, applied and visible on return. After an error nobody knows whether it is
    /// committed: the caller poisons the pool.
    pub fn commit(&self, memory: &dyn Memory, draft: RecordDraft) -> Result<u64> {
        self.commit_from(thread_shard(LANE_COUNT), memory, draft)
    }

    /// The same, trying lane `usual` first.
    fn commit_from(&self, usual: usize, memory: &dyn Memory, draft: RecordDraft) -> Result<u64> {
        if draft.payload_bytes() > PAYLOAD_BYTES_MAX {
            return Err(Error::Limit(format!(
                "a transaction of {} bytes exceeds the limit of {PAYLOAD_BYTES_MAX}",
                draft.payload_bytes()
            )));
        }
        let (index, mut writer) = self.pick(usual);
        self.have_not_failed()?;
        let needed = footprint(draft.payload_bytes()) as u64;
        if writer.used + needed > LANE {
            self.retire(memory)?;
            debug_assert!(writer.last < self.retired.load(Ordering::SeqCst), "L3");
            writer.used = 0;
        }
        let mut under_way = self.begin(index);
        let sequence = under_way.sequence;
        let payload = HEADER..HEADER + draft.payload_bytes();
        let bytes = draft.seal(self.salt, sequence);
        let at = LANES + index as u64 * LANE + writer.used;
        memory.store(at, &bytes, Scheme::Nt);
        memory.settle_span(Span::new(at, bytes.len() as u64))?;
        let mut home = under_way.lane.home.lock();
        let applied = apply(memory, &bytes[payload], |span| home.note(span));
        drop(home);
        writer.used += needed;
        writer.last = sequence;
        under_way.has_ended = true;
        applied.map(|()| sequence)
    }

    /// The next commit in lane `index`, which the caller has.
    fn begin(&self, index: usize) -> PendingCommit<'_> {
        let lane = &self.lanes[index];
        // Release: who finds the sequence taken finds that it is under way too.
        lane.under_way.store(STARTING, Ordering::Release);
        let sequence = self.next.fetch_add(1, Ordering::SeqCst);
        lane.under_way.store(sequence, Ordering::Release);
        PendingCommit { lanes: self, lane, sequence, has_ended: false }
    }

    /// Makes every applied write durable at home and moves the retired word above it (L4).
    pub fn retire(&self, memory: &dyn Memory) -> Result<()> {
        let _one = self.retiring.lock();
        let horizon = self.next.load(Ordering::SeqCst);
        for lane in &self.lanes {
            spin_until(|| {
                let under_way = lane.under_way.load(Ordering::SeqCst);
                under_way == 0 || (under_way != STARTING && under_way >= horizon)
            });
        }
        self.have_not_failed()?;
        let home: Vec<Span> = self.lanes.iter().flat_map(|lane| lane.home.lock().take()).collect();
        flush_all(memory, &home)?;
        store_retired(memory, seal(self.salt, horizon))?;
        self.retired.store(horizon, Ordering::SeqCst);
        Ok(())
    }

    fn have_not_failed(&self) -> Result<()> {
        let why = || Error::Poisoned("a transaction could not be made durable".into());
        if self.failed.load(Ordering::SeqCst) { Err(why()) } else { Ok(()) }
    }

    /// A lane nobody else commits in now, `usual` first.
    fn pick(&self, usual: usize) -> (usize, MutexGuard<'_, LaneWriter>) {
        for step in 0..LANE_COUNT {
            let index = (usual + step) % LANE_COUNT;
            if let Some(writer) = self.lanes[index].writer.try_lock() {
                return (index, writer);
            }
        }
        let index = usual % LANE_COUNT;
        (index, self.lanes[index].writer.lock())
    }
}

fn flush_all(memory: &dyn Memory, home: &[Span]) -> Result<()> {
    home.iter().for_each(|span| memory.flush(*span));
    Ok(memory.settle()?)
}

/// Whichever of the two a crash leaves, all below it is at home (L4), and nothing is overwritten before both are (L3).
fn store_retired(memory: &dyn Memory, word: u64) -> Result<()> {
    for at in RETIRED {
        memory.store_word(at, word);
        memory.flush(Span::new(at, 8));
    }
    Ok(memory.settle()?)
}

#[cfg(test)]
mod tests;
