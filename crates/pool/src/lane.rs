//! Lanes: the places where transactions commit, many at once.
//!
//! Each lane is 64 KiB of [records](crate::checked_record). A committing thread acquires a lane, draws the next
//! sequence number, writes one record and fences once: the transaction is committed. Then the thread applies the
//! record's writes to their homes.
//!
//! - L1. A transaction is committed if its record verifies in a lane, every record before it there has a smaller
//!   sequence, and its own sequence is not below the retired word. Records below the word may precede it in the lane,
//!   because the word moves when any lane is full.
//! - L2. Conflicting transactions commit in the order of their sequence: the caller holds its locks from before the
//!   sequence is drawn until after the writes are applied.
//! - L3. A record is overwritten only after the retired word above it is durable.
//! - L4. The retired word moves to H only after the home writes of every transaction below H, in every lane, are
//!   durable. So replay never stores an older record over a younger write. The word has two copies. Recovery uses the
//!   larger one; either alone is enough, because all transactions below it are at home.
//! - L5. Recovery applies the records of L1 of all lanes in sequence, makes that durable, then moves the retired word.
//!   After an interruption it does the same again (see [`redo`](crate::redo)).
//! - L6. Space that transactions write is written by transactions alone until it is free, and it becomes free only when
//!   no record that writes to it can be replayed. So replay never writes into space that another owner has stored to
//!   since.
//! - L7. A crash may tear the last record of a lane and no other, because the previous record was durable before it
//!   began. Behind it lie records of earlier rounds, which are retired (L3). So an unretired record behind a record
//!   that does not verify shows that memory was damaged, and where; the pool is refused. To keep this true, after a
//!   record that could not be made durable, or a panic during a commit, no lane accepts further records.
//! - L8. Home writes are cached stores that only L4 flushes. Until then the record is the durable copy, whatever a
//!   crash leaves in their lines. A killed process leaves home writes visible; recovery stores them again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferrite_memory::shard::own_shard;
use ferrite_memory::{Memory, Scheme, Span, spin_until};
use parking_lot::{Mutex, MutexGuard};

use crate::checked_record::{HEADER, RecordDraft, footprint};
use crate::checked_word::seal;
use crate::layout::{LANE, LANE_COUNT, LANES, RETIRED};
use crate::operation::apply;
use crate::redo::Redo;

use crate::{Error, Result};

mod home_lines;
pub(crate) mod lane_content;

use home_lines::HomeLines;

/// Largest payload of one transaction in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 10;

/// The state of a lane that has begun a commit and does not know its sequence yet.
const STARTING: u64 = u64::MAX;

#[derive(Debug, Default)]
struct LaneWriter {
    used: u64,
    last: u64,
}

#[derive(Debug, Default)]
struct Lane {
    writer: Mutex<LaneWriter>,
    /// The sequence of the commit in progress, [`STARTING`], or 0.
    under_way: AtomicU64,
    /// Home writes that are applied and may not be durable.
    home: Mutex<HomeLines>,
}

/// A commit in progress. Dropping it before its end, by a panic, leaves a record that may or may not be committed.
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
    /// On the heap, because threads with small stacks open pools too.
    lanes: Box<[Lane]>,
    salt: u32,
    next: AtomicU64,
    retired: AtomicU64,
    retiring: Mutex<()>,
    /// True if a record could not be made durable (L7), or may not have been applied (L4).
    failed: AtomicBool,
}

impl LaneSet {
    /// Clears the whole lanes of a new pool: after a restore they hold records of the pool's earlier life, which would
    /// verify behind the first new ones. The caller's next settle makes this durable.
    pub fn format(memory: &dyn Memory, salt: u32) {
        memory.zero(Span::new(LANES, LANE_COUNT as u64 * LANE), Scheme::Nt);
        RETIRED.iter().for_each(|at| memory.store(*at, &seal(salt, 1).to_le_bytes(), Scheme::Flush));
    }

    /// Recovers the lanes (L5). Durable on return.
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

    /// Commits one transaction; it is durable, applied and visible on return. After an error the transaction may or may
    /// not be committed, and the caller poisons the pool.
    pub fn commit(&self, memory: &dyn Memory, draft: RecordDraft) -> Result<u64> {
        self.commit_from(own_shard(), memory, draft)
    }

    /// Commits as [`LaneSet::commit`] does, trying lane `preferred` first.
    fn commit_from(&self, preferred: usize, memory: &dyn Memory, draft: RecordDraft) -> Result<u64> {
        if draft.payload_bytes() > PAYLOAD_BYTES_MAX {
            return Err(Error::Limit(format!(
                "a transaction of {} bytes exceeds the limit of {PAYLOAD_BYTES_MAX}",
                draft.payload_bytes()
            )));
        }
        let (index, mut writer) = self.pick(preferred);
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
        memory.drain_range(Span::new(at, bytes.len() as u64))?;
        let mut home = under_way.lane.home.lock();
        let applied = apply(memory, &bytes[payload], |span| home.note(span));
        drop(home);
        writer.used += needed;
        writer.last = sequence;
        under_way.has_ended = true;
        applied.map(|()| sequence)
    }

    /// Begins the next commit in lane `index`, which the caller has acquired.
    fn begin(&self, index: usize) -> PendingCommit<'_> {
        let lane = &self.lanes[index];
        // Release: a thread that sees the next sequence also sees that this commit is in progress.
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

    /// Acquires a lane in which no other thread commits, trying lane `preferred` first.
    fn pick(&self, preferred: usize) -> (usize, MutexGuard<'_, LaneWriter>) {
        for step in 0..LANE_COUNT {
            let index = (preferred + step) % LANE_COUNT;
            if let Some(writer) = self.lanes[index].writer.try_lock() {
                return (index, writer);
            }
        }
        let index = preferred % LANE_COUNT;
        (index, self.lanes[index].writer.lock())
    }
}

fn flush_all(memory: &dyn Memory, home: &[Span]) -> Result<()> {
    home.iter().for_each(|span| memory.flush(*span));
    Ok(memory.drain()?)
}

/// Stores both copies of the retired word, durable on return. If a crash keeps only one, all transactions below it are
/// at home (L4), and no record is overwritten before both are durable (L3).
fn store_retired(memory: &dyn Memory, word: u64) -> Result<()> {
    for at in RETIRED {
        memory.store_word(at, word);
        memory.flush(Span::new(at, 8));
    }
    Ok(memory.drain()?)
}

#[cfg(test)]
mod tests;
