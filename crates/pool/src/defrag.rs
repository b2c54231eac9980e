//! Defragmentation: few extents for each tag, free chunks side by side, pages in few chunks.
//!
//! ```text
//!   before   | A | p | B | . | A | . | p | B | . | A |      A, B tags' superpages   p chunk with some pages in use
//!   after    | A   A   A | p | B   B | .   .   .   . |      . free chunk
//! ```
//!
//! A round joins neighbouring extents, packs the pages of the normal zone, and moves chunks; rounds continue while they
//! improve the pool. Every step is bounded: it copies one chunk at most and commits one transaction.
//!
//! - X1. Data is copied, and the copy is durable, before the transaction that refers to it; the old place becomes free
//!   after that. So at every instant, also after a crash, every stream has its content, and a defragmentation that was
//!   stopped leaves a sound pool. The next one plans from the current state.
//! - X2. Pages and chunks move only to free space. One free chunk is enough to move chunks, and one free page (and
//!   those for lists of extents) to move pages. If even that is missing, or the host has no storage for it, the
//!   defragmentation stops and reports it.
//! - X3. Nothing moves while it is in use. The exclusive borrow of the pool proves that no service of this process uses
//!   it. Pages under a grant of another process stay. A tag whose kind has no owner in this program stays too, because
//!   only its owner knows whether its content depends on its place ([`TagOwner::relocate`]). Nothing moves into a chunk
//!   with data that has to stay.
//! - X4. A plan is carried out only if it reduces the sum of extents, runs of free chunks, and chunks with pages. So
//!   the defragmentation ends, and leaves an ordered pool as it is. Only a defragmentation that runs out of space on
//!   its way (X2), as it may in a pool with few free pages, can leave more extents than before, and it reports that.
//!
//! The papers' `finalize` closes a pool and defragments it. Here [`Pool::close`] is `finalize` without defragmenting,
//! which an `initialize` ([`Pool::open`]) does not need; this module is the rest, run on request.
//!
//! [`TagOwner::relocate`]: crate::check::TagOwner::relocate

mod move_plan;
mod move_tag;
mod placement;
mod pool_survey;
mod stream_piece;
mod sweep;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::check::TagOwners;
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::page_allocator::ChunkUse;
use crate::{Error, Pool, Result, overflow};

use pool_survey::{PoolSurvey, RefusedTags, bytes, is_refusal};
use sweep::{MoveSweep, find_pages};

/// Rounds after which a defragmentation ends in any case.
const ROUNDS_MAX: usize = 16;

/// The fragmentation of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scatter {
    /// The number of extents of all tags.
    pub extents: u64,
    /// The number of chunks of 2 MiB with pages of 4 KiB in use.
    pub page_chunks: u64,
    /// Free bytes, free pages in such chunks included.
    pub free_bytes: u64,
    /// The number of runs of free chunks.
    pub free_runs: u64,
    /// The size of the longest of these runs in bytes.
    pub largest_free_run_bytes: u64,
}

/// A tag or a part of the pool that stayed in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftInPlace {
    /// The name of the tag; `None` for the pool.
    pub tag: Option<String>,
    /// The reason.
    pub why: String,
}

/// The result of a defragmentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragmented {
    /// The fragmentation before.
    pub before: Scatter,
    /// The fragmentation now.
    pub after: Scatter,
    /// The number of bytes that were copied.
    pub moved_bytes: u64,
    /// The number of transactions that were committed.
    pub transactions: u64,
    /// Tags and parts that stayed in place although they may be fragmented.
    pub left: Vec<LeftInPlace>,
}

impl Scatter {
    /// Returns the fragmentation of `pool`.
    pub fn of(pool: &Pool) -> Self {
        let (kinds, idle) = (pool.space().kinds(), pool.space().idle());
        let lens = || move_plan::free_runs(&idle).map(|run| run.len() as u64);
        Self {
            extents: pool.tags().iter().map(|tag| tag.extents.len() as u64).sum(),
            page_chunks: kinds.iter().zip(&idle).filter(|(kind, idle)| **kind == ChunkUse::Normal && !**idle).count()
                as u64,
            free_bytes: pool.usage().free_bytes,
            free_runs: lens().count() as u64,
            largest_free_run_bytes: lens().max().unwrap_or(0) * CHUNK,
        }
    }

    /// Returns the sum that a defragmentation reduces (X4).
    fn cost(&self) -> u64 {
        self.extents + self.page_chunks + self.free_runs
    }
}

/// Defragments `pool`, of which the caller has the only handle; durable on return. `owners` are the owners of the kinds
/// that may be moved. If `watch` or a crash stops it, the pool is sound, and the next run continues.
///
/// # Errors
/// As [`Pool`] says, or [`Error::Cancelled`] if `watch` returns false. A pool or host without space to move anything,
/// and tags that have to stay in place, are not errors but part of the report.
pub fn defrag(pool: &mut Pool, owners: &TagOwners, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Defragmented> {
    let mut defrag = Defragmenter::new(pool, owners)?;
    while defrag.step()? {
        if !watch(defrag.progress()) {
            return Err(Error::Cancelled("the defragmentation"));
        }
    }
    Ok(defrag.report())
}

/// A defragmentation, run step by step.
pub struct Defragmenter<'a> {
    pool: &'a mut Pool,
    owners: &'a TagOwners,
    refused: RefusedTags,
    gave_up: Option<String>,
    stage: DefragStage,
    rounds: usize,
    before: Scatter,
    /// The fragmentation when the round began.
    round: Scatter,
    moved_bytes: u64,
    transactions: u64,
}

/// The next step.
enum DefragStage {
    Begin,
    /// Joins the extents of these tags, which have neighbouring extents.
    Join(Vec<Arc<str>>),
    Pages,
    /// Moves the lists of extents of these tags out of chunks that are being emptied; the set has the chunks that are
    /// kept.
    Lists(Vec<Arc<str>>, BTreeSet<u64>),
    Chunks,
    Sweep(Box<MoveSweep>),
    /// Decides on another round.
    End,
    Done,
}

/// Returns a plan, if it improves the pool.
type MovePlanner = fn(&PoolSurvey) -> Option<move_plan::MovePlan>;

impl<'a> Defragmenter<'a> {
    /// Returns a defragmentation that has not begun.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if an earlier persist failed.
    pub fn new(pool: &'a mut Pool, owners: &'a TagOwners) -> Result<Self> {
        pool.check_poison()?;
        let before = Scatter::of(pool);
        let (refused, gave_up, stage) = (RefusedTags::new(), None, DefragStage::Begin);
        Ok(Self {
            pool,
            owners,
            refused,
            gave_up,
            stage,
            rounds: 0,
            before,
            round: before,
            moved_bytes: 0,
            transactions: 0,
        })
    }

    /// Commits the next transaction. Returns false when nothing is left to do. After an error nothing more is done.
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn step(&mut self) -> Result<bool> {
        let mut has_moved = false;
        while !has_moved && !matches!(self.stage, DefragStage::Done) {
            let stage = std::mem::replace(&mut self.stage, DefragStage::Done);
            (self.stage, has_moved) = self.pass(stage)?;
        }
        Ok(has_moved)
    }

    /// Returns the progress of the current part of the round.
    pub fn progress(&self) -> Progress {
        let (done, total, what) = match &self.stage {
            DefragStage::Sweep(sweep) => (sweep.done_pages, sweep.all_pages, sweep.what()),
            _ => (0, 0, "joining extents"),
        };
        Progress { done: bytes(done), total: bytes(total), what: what.into() }
    }

    /// Returns the result so far.
    pub fn report(&self) -> Defragmented {
        let refused =
            self.refused.iter().map(|(tag, why)| LeftInPlace { tag: Some(tag.to_string()), why: why.clone() });
        let gave_up = self.gave_up.iter().map(|why| LeftInPlace { tag: None, why: why.clone() });
        Defragmented {
            before: self.before,
            after: Scatter::of(self.pool),
            moved_bytes: self.moved_bytes,
            transactions: self.transactions,
            left: refused.chain(gave_up).collect(),
        }
    }

    /// Runs `stage`. Returns the next one, and true if a transaction was committed.
    fn pass(&mut self, stage: DefragStage) -> Result<(DefragStage, bool)> {
        Ok(match stage {
            DefragStage::Begin => {
                self.rounds += 1;
                (self.round, self.gave_up) = (Scatter::of(self.pool), None);
                (DefragStage::Join(self.joinable()), false)
            }
            DefragStage::Join(mut names) => match names.pop() {
                Some(name) => (DefragStage::Join(names), self.list_anew(&name, &self.all_rooms())?),
                None => (DefragStage::Pages, false),
            },
            DefragStage::Pages => (self.plan(move_plan::pages, DefragStage::Chunks), false),
            DefragStage::Sweep(sweep) => self.pass_sweep(sweep)?,
            DefragStage::Lists(mut names, kept) => match names.pop() {
                Some(name) => {
                    let is_out = self.list_chunks(&name)?.iter().any(|chunk| !kept.contains(chunk));
                    let has_moved = is_out && self.list_anew(&name, &kept.iter().copied().collect::<Vec<_>>())?;
                    (DefragStage::Lists(names, kept), has_moved)
                }
                None => (DefragStage::Chunks, false),
            },
            DefragStage::Chunks => (self.plan(move_plan::chunks, DefragStage::End), false),
            DefragStage::End if self.rounds < ROUNDS_MAX && Scatter::of(self.pool).cost() < self.round.cost() => {
                (DefragStage::Begin, false)
            }
            DefragStage::End | DefragStage::Done => (DefragStage::Done, false),
        })
    }

    /// Returns a sweep by the plan of `planner`, or `instead` if `planner` finds no better state.
    fn plan(&mut self, planner: MovePlanner, instead: DefragStage) -> DefragStage {
        let survey = PoolSurvey::of(self.pool, self.owners, &mut self.refused);
        match planner(&survey) {
            Some(plan) => DefragStage::Sweep(Box::new(MoveSweep::new(survey, plan))),
            None => instead,
        }
    }

    fn pass_sweep(&mut self, mut sweep: Box<MoveSweep>) -> Result<(DefragStage, bool)> {
        let refused = self.refused.len();
        match self.sweep(&mut sweep) {
            Ok(true) => Ok((DefragStage::Sweep(sweep), true)),
            Ok(false) => {
                let kept = sweep.into_kept();
                let names = || self.pool.tags().iter().map(|tag| tag.name.as_str().into()).collect();
                Ok((if kept.is_empty() { DefragStage::End } else { DefragStage::Lists(names(), kept) }, false))
            }
            // The tag stays in place from now on, and a new plan is made without it.
            Err(_) if self.refused.len() > refused => Ok((DefragStage::Begin, false)),
            Err(error) => Err(error),
        }
    }

    /// Records that tag `name` has to stay in place, if `error` says so.
    fn refuse(&mut self, name: &str, error: Error) -> Error {
        if is_refusal(&error) {
            self.refused.insert(name.into(), error.to_string());
        }
        error
    }

    /// Returns true if `error` says that there is no space to move data to, and the pool is not poisoned.
    fn is_want_of_room(&self, error: &Error) -> bool {
        let is_full = error.is_want_of_space() || matches!(error, Error::Limit(_));
        is_full && self.pool.check_poison().is_ok()
    }

    /// Returns the tags with neighbouring extents.
    fn joinable(&self) -> Vec<Arc<str>> {
        let tags = self.pool.tags();
        let scattered = tags.iter().filter(|tag| stream_piece::joined(&tag.extents).len() < tag.extents.len());
        scattered.map(|tag| tag.name.as_str().into()).collect()
    }

    /// Rewrites the list of extents of tag `name`, joined; extents that do not fit its slot go to free pages of
    /// `chunks`. Returns false if there was no space.
    fn list_anew(&mut self, name: &str, chunks: &[u64]) -> Result<bool> {
        let space = self.pool.space();
        let rooms = || chunks.iter().map(|chunk| (*chunk, 0..CHUNK_PAGES)).collect();
        let room = &mut |pages| Ok(overflow::pages_of(&find_pages(space, rooms(), pages)?));
        match move_tag::relocate(self.pool, self.owners, name, None, room) {
            Ok(_) => {
                self.transactions += 1;
                Ok(true)
            }
            Err(error) if self.is_want_of_room(&error) => {
                self.gave_up = Some(format!("there is no space for the list of extents of {name:?}: {error}"));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns all chunks, those with pages in use first.
    fn all_rooms(&self) -> Vec<u64> {
        let idle = self.pool.space().idle();
        let (free, used): (Vec<u64>, Vec<u64>) = (0..idle.len() as u64).partition(|chunk| idle[*chunk as usize]);
        used.into_iter().chain(free).collect()
    }
}

#[cfg(test)]
mod tests;
