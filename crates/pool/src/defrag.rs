//! Defragmentation: few extents for each tag, free chunks side by side, pages in few chunks.
//!
//! ```text
//!   before   | A | p | B | . | A | . | p | B | . | A |      A, B tags' superpages   p chunk with some pages in use
//!   after    | A   A   A | p | B   B | .   .   .   . |      . free chunk
//! ```
//!
//! A round joins extents that lie side by side, packs the pages of the normal zone, and moves chunks; rounds go on while
//! that makes things better. All of it in bounded steps: each copies one chunk at most and commits one transaction.
//!
//! - X1. What is moved is copied, and the copy is durable, before the transaction that names it; what it leaves is free
//!   only after that. So at every instant, also of a crash, every stream holds what it held, and what a defragmentation
//!   was stopped in is a sound pool. The next one makes its own plan of what it finds.
//! - X2. A page or chunk is moved only to where nothing is. One free chunk is enough to move chunks through, one free
//!   page (and those for lists of extents) for pages; where even that is missing, or the host has no storage for it, it
//!   stops and says so.
//! - X3. Nothing moves under anybody: the exclusive borrow of the pool says that no service of this process has it, what
//!   is under a grant of another process stays, and so does every tag of a kind whose owner is not known here, because
//!   only owners know whether what a tag holds depends on where it lies ([`TagOwner::relocate`]). A chunk with something
//!   in it that stays is no place to move anything to.
//! - X4. A plan is carried out only if it makes extents, runs of free chunks and chunks with pages together fewer. So it
//!   ends, and a pool in order is left as it is. Only one that ran out of room on its way (X2), as it may in a pool with
//!   a few free pages, can leave more extents than there were, and it says so.
//!
//! The papers' `finalize` closes a pool in order and defragments it. Here these are two words: [`Pool::close`] is
//! `finalize` without defragmenting, which an `initialize` ([`Pool::open`]) does not need; and this is the rest, for when
//! somebody asks for it.
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
use sweep::{MoveSweep, loose};

/// Rounds after which it ends in any case.
const ROUNDS_MAX: usize = 16;

/// How scattered a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scatter {
    /// Extents of all tags.
    pub extents: u64,
    /// Chunks of 2 MiB of which pages of 4 KiB are in use.
    pub page_chunks: u64,
    /// Bytes that nothing uses, pages in such chunks included.
    pub free_bytes: u64,
    /// Runs of wholly free chunks.
    pub free_runs: u64,
    /// Bytes of the longest of them.
    pub largest_free_run_bytes: u64,
}

/// What stayed where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftInPlace {
    /// The tag; none where it is about the pool.
    pub tag: Option<String>,
    /// Why.
    pub why: String,
}

/// What a defragmentation did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragmented {
    /// How scattered the pool was.
    pub before: Scatter,
    /// How scattered it is.
    pub after: Scatter,
    /// Bytes that were copied.
    pub moved_bytes: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// What stayed where it was although it may be scattered.
    pub left: Vec<LeftInPlace>,
}

impl Scatter {
    /// How scattered `pool` is now.
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

    /// What is to become fewer (X4).
    fn cost(&self) -> u64 {
        self.extents + self.page_chunks + self.free_runs
    }
}

/// Defragments `pool`, to which nobody else has a handle; durable on return. `owners` are those of the kinds that may be
/// moved. Stopped by `watch`, or by a crash, the pool is sound, and the next run ends what was begun.
///
/// # Errors
/// As [`Pool`] says, or [`Error::Cancelled`] where `watch` says so. A pool or a host too full to move
/// anything, and tags that must stay where they are, are no errors but told in the report.
pub fn defrag(pool: &mut Pool, owners: &TagOwners, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Defragmented> {
    let mut defrag = Defragmenter::new(pool, owners)?;
    while defrag.step()? {
        if !watch(defrag.progress()) {
            return Err(Error::Cancelled("the defragmentation"));
        }
    }
    Ok(defrag.report())
}

/// A defragmentation, step by step.
pub struct Defragmenter<'a> {
    pool: &'a mut Pool,
    owners: &'a TagOwners,
    refused: RefusedTags,
    gave_up: Option<String>,
    stage: DefragStage,
    rounds: usize,
    before: Scatter,
    /// How scattered the pool was when the round began.
    round: Scatter,
    moved_bytes: u64,
    transactions: u64,
}

/// What comes next.
enum DefragStage {
    Begin,
    /// Tags with extents that lie side by side.
    Join(Vec<Arc<str>>),
    Pages,
    /// Tags whose lists of extents are in chunks that are given up.
    Lists(Vec<Arc<str>>, BTreeSet<u64>),
    Chunks,
    Sweep(Box<MoveSweep>),
    /// Another round, or not.
    End,
    Done,
}

/// Makes a plan, if there is a better one than what is there.
type MovePlanner = fn(&PoolSurvey) -> Option<move_plan::MovePlan>;

impl<'a> Defragmenter<'a> {
    /// One that has not begun.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
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

    /// Goes on by one transaction; `false` when all is done. After an error nothing more is.
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

    /// How far the round's present part has come.
    pub fn progress(&self) -> Progress {
        let (done, total, what) = match &self.stage {
            DefragStage::Sweep(sweep) => (sweep.done_pages, sweep.all_pages, sweep.what()),
            _ => (0, 0, "joining extents"),
        };
        Progress { done: bytes(done), total: bytes(total), what: what.into() }
    }

    /// What has been done so far.
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

    /// What comes after `stage`, and whether a transaction was committed.
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

    /// A sweep by the plan that `planner` makes, or what comes `instead`.
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
            // It stays from now on, and what was planned with it is planned anew.
            Err(_) if self.refused.len() > refused => Ok((DefragStage::Begin, false)),
            Err(error) => Err(error),
        }
    }

    /// Notes that tag `name` must stay, if that is what `error` says.
    fn refuse(&mut self, name: &str, error: Error) -> Error {
        if is_refusal(&error) {
            self.refused.insert(name.into(), error.to_string());
        }
        error
    }

    /// Whether `error` says that there is no room to move something to, and nothing else is wrong.
    fn is_want_of_room(&self, error: &Error) -> bool {
        let is_full = error.is_want_of_space() || matches!(error, Error::Limit(_));
        is_full && self.pool.check_poison().is_ok()
    }

    /// Tags with extents that lie side by side.
    fn joinable(&self) -> Vec<Arc<str>> {
        let tags = self.pool.tags();
        let scattered = tags.iter().filter(|tag| stream_piece::joined(&tag.extents).len() < tag.extents.len());
        scattered.map(|tag| tag.name.as_str().into()).collect()
    }

    /// Lists the extents of tag `name` anew, joined; what does not fit its slot on free pages of `chunks`. Whether that
    /// was possible.
    fn list_anew(&mut self, name: &str, chunks: &[u64]) -> Result<bool> {
        let space = self.pool.space();
        let rooms = || chunks.iter().map(|chunk| (*chunk, 0..CHUNK_PAGES)).collect();
        let room = &mut |pages| Ok(overflow::pages_of(&loose(space, rooms(), pages)?));
        match self.pool.relocate(self.owners, name, None, room) {
            Ok(_) => {
                self.transactions += 1;
                Ok(true)
            }
            Err(error) if self.is_want_of_room(&error) => {
                self.gave_up = Some(format!("there is no room for the list of extents of {name:?}: {error}"));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// All chunks, those first that have pages in use.
    fn all_rooms(&self) -> Vec<u64> {
        let idle = self.pool.space().idle();
        let (free, used): (Vec<u64>, Vec<u64>) = (0..idle.len() as u64).partition(|chunk| idle[*chunk as usize]);
        used.into_iter().chain(free).collect()
    }
}

#[cfg(test)]
mod tests;
