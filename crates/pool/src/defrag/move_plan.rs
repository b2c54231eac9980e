//! Plans of moves. A plan is made only if it improves the pool (X4).

use std::collections::BTreeSet;
use std::iter::repeat;
use std::ops::Range;
use std::sync::Arc;

use crate::extent::{Extent, Role, Zone};
use crate::layout::CHUNK_PAGES;
use crate::page_allocator::ChunkUse;
use crate::tag::Tag;

use super::placement::{PlacedItem, lay_out};
use super::pool_survey::{PageHolder, PoolSurvey};
use super::stream_piece::{StreamPiece, ZoneRun, pieces, runs};

/// Data that moves to one place, one chunk at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MoveTarget {
    pub what: MoveSubject,
    pub to: Extent,
}

/// The data that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveSubject {
    /// Pages of a tag's stream, from page `at` on.
    Stream { tag: Arc<str>, at: u64 },
    /// The page of the tag table with this number.
    Table(usize),
    /// The list of a tag's extents, which moves out of this chunk.
    List { tag: Arc<str>, out_of: u64 },
}

/// The plan of a sweep.
#[derive(Debug)]
pub(super) struct MovePlan {
    /// The moves, in the order of their targets.
    pub targets: Vec<MoveTarget>,
    /// The chunks that pages are packed into; empty if chunks are moved.
    pub kept: BTreeSet<u64>,
}

/// A run to be placed, and its data.
struct MovableRun {
    what: MoveSubject,
    run: ZoneRun,
}

/// Returns the plan that packs the pages of the normal zone into as few chunks as possible, and each run into as few
/// extents as possible.
pub(super) fn pages(survey: &PoolSurvey) -> Option<MovePlan> {
    let chunks: Vec<u64> = normal_chunks(survey).collect();
    let (mut things, mut lists) = (stream_runs(survey, Zone::Normal), BTreeSet::new());
    for (who, range) in chunks.iter().flat_map(|chunk| survey.all_in(chunk_pages(*chunk))) {
        match who {
            PageHolder::Table(index) => {
                let run = ZoneRun { role: Role::MAP, at: 0, pages: 1, page: range.start, extents: 0 };
                things.push(MovableRun { what: MoveSubject::Table(index), run });
            }
            PageHolder::List(_) => _ = lists.insert(range.start),
            _ => {}
        }
    }
    let pages = things.iter().map(|it| it.run.pages).sum::<u64>() + lists.len() as u64;
    let kept = chunks.get(..pages.div_ceil(CHUNK_PAGES) as usize)?;
    let stretches: Vec<Range<u64>> = kept.iter().map(|chunk| chunk_pages(*chunk)).collect();
    let placed = lay_out(&sizes(&things, 1), &stretches, lists.len() as u64)?;
    let extents: usize = placed.iter().zip(&things).filter(|(_, it)| it.run.extents > 0).map(|it| it.0.len()).sum();
    let now = things.iter().map(|it| it.run.extents).sum::<u64>() + chunks.len() as u64;
    let better = (extents + kept.len()) as u64 <= now.checked_sub(1)?;
    better.then(|| MovePlan { targets: targets(&things, &placed, Zone::Normal), kept: kept.iter().copied().collect() })
}

/// Returns the plan that moves chunks: each run of superpages into as few extents as possible, and free chunks
/// together.
pub(super) fn chunks(survey: &PoolSurvey) -> Option<MovePlan> {
    let mut things = stream_runs(survey, Zone::Super);
    let first_normal = things.len();
    let normal: Vec<u64> = normal_chunks(survey).collect();
    things.extend(normal.iter().map(|chunk| MovableRun {
        what: MoveSubject::Table(0),
        run: ZoneRun { role: Role::MAP, at: 0, pages: CHUNK_PAGES, page: chunk * CHUNK_PAGES, extents: 0 },
    }));
    let stretches = stretches(survey);
    let placed = lay_out(&sizes(&things, CHUNK_PAGES), &stretches, 0)?;
    let extents: usize = placed[..first_normal].iter().map(Vec::len).sum();
    let mut idle: Vec<bool> = (0..survey.kinds.len() as u64).map(|chunk| !survey.fixed.contains(&chunk)).collect();
    placed.iter().flatten().cloned().flatten().for_each(|chunk| idle[chunk as usize] = false);
    let now = things.iter().map(|it| it.run.extents).sum::<u64>() + free_runs(&survey.idle).count() as u64;
    if extents as u64 + free_runs(&idle).count() as u64 >= now {
        return None;
    }
    let in_pages = |range: &Range<u64>| range.start * CHUNK_PAGES..range.end * CHUNK_PAGES;
    let placed: Vec<Vec<Range<u64>>> = placed.iter().map(|ranges| ranges.iter().map(in_pages).collect()).collect();
    let mut targets = targets(&things[..first_normal], &placed[..first_normal], Zone::Super);
    for (chunk, to) in normal.into_iter().zip(&placed[first_normal..]) {
        targets.extend(chunk_targets(survey, chunk, to[0].start));
    }
    targets.sort_by_key(|target| (target.to.page, matches!(target.what, MoveSubject::List { .. })));
    Some(MovePlan { targets, kept: BTreeSet::new() })
}

/// Returns the runs of free neighbours, by their numbers.
pub(super) fn free_runs(idle: &[bool]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = at + idle[at..].iter().position(|idle| *idle)?;
        at = first + idle[first..].iter().position(|idle| !*idle).unwrap_or(idle.len() - first);
        Some(first..at)
    })
}

fn chunk_pages(chunk: u64) -> Range<u64> {
    chunk * CHUNK_PAGES..(chunk + 1) * CHUNK_PAGES
}

/// Returns the chunks of the normal zone whose pages in use may all be moved.
fn normal_chunks(survey: &PoolSurvey) -> impl Iterator<Item = u64> {
    let chunks = survey.kinds.iter().zip(&survey.idle).enumerate();
    let used = chunks.filter(|(_, (kind, idle))| **kind == ChunkUse::Normal && !**idle);
    used.map(|(chunk, _)| chunk as u64).filter(|chunk| !survey.fixed.contains(chunk))
}

/// Returns the runs of chunks without data that has to stay.
fn stretches(survey: &PoolSurvey) -> Vec<Range<u64>> {
    let open: Vec<bool> = (0..survey.kinds.len() as u64).map(|chunk| !survey.fixed.contains(&chunk)).collect();
    free_runs(&open).map(|run| run.start as u64..run.end as u64).collect()
}

/// Returns the runs of `zone` of every tag that may be moved.
fn stream_runs(survey: &PoolSurvey, zone: Zone) -> Vec<MovableRun> {
    let of_tag = |tag: &Arc<Tag>| {
        let name: Arc<str> = tag.name.as_str().into();
        let runs = runs(&tag.extents, zone).into_iter();
        runs.map(move |run| MovableRun { what: MoveSubject::Stream { tag: Arc::clone(&name), at: run.at }, run })
    };
    survey.movable.iter().flat_map(of_tag).collect()
}

/// Returns `things` in units of `unit` pages.
fn sizes(things: &[MovableRun], unit: u64) -> Vec<PlacedItem> {
    things.iter().map(|it| PlacedItem { position: it.run.page / unit, size: it.run.pages / unit }).collect()
}

/// Returns the moves of `things` to where they were `placed`, in pages of the pool, ascending.
fn targets(things: &[MovableRun], placed: &[Vec<Range<u64>>], zone: Zone) -> Vec<MoveTarget> {
    let mut targets = Vec::new();
    for (MovableRun { what, run }, ranges) in things.iter().zip(placed) {
        let mut done = 0;
        let starts = |range: &Range<u64>| range.clone().step_by(CHUNK_PAGES as usize).zip(repeat(range.end));
        for (page, end) in ranges.iter().flat_map(starts) {
            let end = end.min(page + CHUNK_PAGES);
            let what = match what {
                MoveSubject::Stream { tag, at } => MoveSubject::Stream { tag: Arc::clone(tag), at: at + done },
                other => other.clone(),
            };
            targets.push(MoveTarget { what, to: Extent { page, pages: (end - page) as u32, role: run.role, zone } });
            done += end - page;
        }
    }
    targets.sort_by_key(|target| target.to.page);
    targets
}

/// Returns the moves of the content of `chunk` of the normal zone to the same offsets in the chunk that starts at page
/// `to`.
fn chunk_targets(survey: &PoolSurvey, chunk: u64, to: u64) -> Vec<MoveTarget> {
    let from = chunk_pages(chunk);
    let place = |range: &Range<u64>, role| Extent {
        page: range.start - from.start + to,
        pages: (range.end - range.start) as u32,
        role,
        zone: Zone::Normal,
    };
    let mut targets = Vec::new();
    for (who, range) in survey.all_in(from.clone()).filter(|_| from.start != to) {
        match who {
            PageHolder::Tag(tag) => {
                let piece = survey.piece(&tag, &range);
                targets.extend(piece.map(|StreamPiece { at, extent }| MoveTarget {
                    what: MoveSubject::Stream { tag, at },
                    to: place(&range, extent.role),
                }));
            }
            PageHolder::Table(index) => {
                targets.push(MoveTarget { what: MoveSubject::Table(index), to: place(&range, Role::MAP) })
            }
            PageHolder::List(tag) => targets
                .push(MoveTarget { what: MoveSubject::List { tag, out_of: chunk }, to: place(&range, Role::MAP) }),
            PageHolder::Grant => {}
        }
    }
    targets
}

impl PoolSurvey {
    /// Returns the piece of tag `name` in `range`, by the survey.
    fn piece(&self, name: &str, range: &Range<u64>) -> Option<StreamPiece> {
        let tag = self.movable.binary_search_by(|tag| tag.name.as_str().cmp(name)).ok()?;
        pieces(&self.movable[tag].extents).into_iter().find_map(|piece| piece.of_pool(range))
    }
}
