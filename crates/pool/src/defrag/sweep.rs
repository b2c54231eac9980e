//! A sweep: makes one target after the other free and fills it, one transaction at a time.
//!
//! Targets ascend, and data that is in the way moves to places behind all reached targets, so every target is reached
//! once and the sweep ends. If there is no space for the data in the way, less is moved at a time, down to a page.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::extent::{Extent, Role, Zone, page_at};
use crate::layout::CHUNK_PAGES;
use crate::overflow::pages_of;
use crate::page_allocator::{ChunkUse, PageAllocator};
use crate::{Error, Result};

use super::Defragmenter;
use super::move_plan::{MovePlan, MoveSubject, MoveTarget};
use super::pool_survey::{PageHolder, PoolSurvey, bytes};
use super::stream_piece::{StreamPart, StreamPiece, pieces};

/// The number of free pages for which a part is moved before the rest of its target is free.
const WORTH: u64 = 64;

/// A plan that is being carried out.
pub(super) struct MoveSweep {
    survey: PoolSurvey,
    plan: MovePlan,
    next: usize,
    /// The number of pages moved at a time.
    most: u64,
    /// In a sweep over chunks: the target's chunk, and the chunk that takes the data in its way.
    spill: Option<(u64, u64)>,
    pub done_pages: u64,
    pub all_pages: u64,
}

impl MoveSweep {
    pub fn new(survey: PoolSurvey, plan: MovePlan) -> Self {
        let all_pages = plan.targets.iter().map(|target| u64::from(target.to.pages)).sum();
        Self { survey, plan, next: 0, most: CHUNK_PAGES, spill: None, done_pages: 0, all_pages }
    }

    /// Returns a description for progress reports.
    pub fn what(&self) -> &'static str {
        if self.plan.kept.is_empty() { "moving chunks" } else { "packing pages" }
    }

    /// Returns the chunks that pages are packed into; empty in a sweep over chunks.
    pub fn into_kept(self) -> BTreeSet<u64> {
        self.plan.kept
    }

    fn reached(&mut self) {
        self.done_pages += u64::from(self.plan.targets[self.next].to.pages);
        self.next += 1;
        self.most = CHUNK_PAGES;
    }
}

impl Defragmenter<'_> {
    /// Commits the next transaction. Returns false when the sweep has ended.
    pub(super) fn sweep(&mut self, sweep: &mut MoveSweep) -> Result<bool> {
        while let Some(target) = sweep.plan.targets.get(sweep.next).cloned() {
            match self.move_towards(sweep, &target) {
                Ok(true) => return Ok(true),
                Ok(false) => sweep.reached(),
                Err(error) if !self.is_want_of_room(&error) => return Err(error),
                Err(_) if target.to.zone == Zone::Normal && sweep.most > 1 => sweep.most /= 2,
                Err(error) => {
                    self.gave_up = Some(format!("there is no free space to move through: {error}"));
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Commits one transaction towards `target`. Returns false if it is reached.
    fn move_towards(&mut self, sweep: &mut MoveSweep, target: &MoveTarget) -> Result<bool> {
        let part = match &target.what {
            MoveSubject::Stream { tag, at } => self.missing_part(tag, *at, target.to, sweep.most)?,
            MoveSubject::Table(index) => {
                let is_there = self.pool.table().pages[*index] == target.to.span().at;
                (!is_there).then(|| StreamPart { role: Role::MAP, at: 0, to: vec![target.to] })
            }
            MoveSubject::List { tag, out_of } => return self.clear_list(sweep, tag, *out_of),
        };
        let Some(mut part) = part else { return Ok(false) };
        // Other data is kept away only from these pages.
        let target = &MoveTarget { to: part.to[0], ..target.clone() };
        let pages = target.to.page..target.to.end();
        if let Some((who, within)) = sweep.survey.first_in(&pages) {
            let free = within.start - pages.start;
            if free < WORTH || target.to.zone == Zone::Super {
                return self.clear(sweep, target, who, &within).map(|()| true);
            }
            part.to[0].pages = free as u32;
        }
        match &target.what {
            MoveSubject::Table(index) => self.move_table(sweep, *index, target.to)?,
            MoveSubject::Stream { tag, .. } | MoveSubject::List { tag, .. } => {
                self.relocate(sweep, target, tag, Some(&part))?
            }
        }
        Ok(true)
    }

    /// Returns the first pages of `tag`, among those from `at` on that belong in `to`, that are not there yet; `most`
    /// at most.
    fn missing_part(&self, tag: &str, at: u64, to: Extent, most: u64) -> Result<Option<StreamPart>> {
        let tag = self.pool.tag(tag)?;
        let range = at..at + u64::from(to.pages);
        let parts = pieces(&tag.extents).into_iter().filter(|piece| piece.extent.role == to.role);
        let mut missing_part: Option<Range<u64>> = None;
        for piece in parts.filter_map(|piece| piece.of_stream(&range)) {
            let end = piece.at + u64::from(piece.extent.pages);
            match (piece.extent.page == to.page + piece.at - at, &mut missing_part) {
                (true, None) => {}
                (true, Some(_)) => break,
                (false, None) => missing_part = Some(piece.at..end),
                (false, Some(missing_part)) => missing_part.end = end,
            }
        }
        Ok(missing_part.map(|missing_part| {
            let most = if to.zone == Zone::Super { CHUNK_PAGES } else { most };
            let pages = (missing_part.end - missing_part.start).min(most) as u32;
            StreamPart {
                role: to.role,
                at: missing_part.start,
                to: vec![Extent { page: to.page + missing_part.start - at, pages, ..to }],
            }
        }))
    }

    /// Moves the pages `within` of `who` out of the way.
    fn clear(
        &mut self,
        sweep: &mut MoveSweep,
        target: &MoveTarget,
        who: PageHolder,
        within: &Range<u64>,
    ) -> Result<()> {
        match who {
            PageHolder::Tag(tag) => {
                let piece = self.piece(&tag, within)?;
                let to = self.place_for(sweep, target, piece.extent)?;
                self.relocate(sweep, target, &tag, Some(&StreamPart { role: piece.extent.role, at: piece.at, to }))
            }
            PageHolder::List(tag) => self.relocate(sweep, target, &tag, None),
            PageHolder::Table(index) => {
                let page = Extent { page: within.start, ..page_at(0) };
                let to = self.place_for(sweep, target, page)?;
                self.move_table(sweep, index, to[0])
            }
            PageHolder::Grant => Err(Error::Busy("pages under a grant are in the way".into())),
        }
    }

    /// Returns the piece of `tag` in `pages`, or the whole superpage there.
    fn piece(&self, tag: &str, pages: &Range<u64>) -> Result<StreamPiece> {
        let tag = self.pool.tag(tag)?;
        let chunk = pages.start / CHUNK_PAGES * CHUNK_PAGES;
        let within = |piece: StreamPiece| match piece.extent.zone {
            Zone::Normal => piece.of_pool(pages),
            Zone::Super => piece.of_pool(&(chunk..chunk + CHUNK_PAGES)),
        };
        let found = pieces(&tag.extents).into_iter().find_map(within);
        found.ok_or_else(|| Error::Busy(format!("tag {:?} was changed by another caller", tag.name)))
    }

    /// Returns free pages for the data in the way of `target`.
    fn place_for(&self, sweep: &mut MoveSweep, target: &MoveTarget, what: Extent) -> Result<Vec<Extent>> {
        let space = self.pool.space();
        if what.zone == Zone::Super {
            return Ok(vec![Extent { page: last_idle(space)? * CHUNK_PAGES, ..what }]);
        }
        if sweep.plan.kept.is_empty() {
            let chunk = target.to.page / CHUNK_PAGES;
            let spill = match sweep.spill.filter(|(of, _)| *of == chunk) {
                Some((_, spill)) => spill,
                None => last_idle(space)?,
            };
            sweep.spill = Some((chunk, spill));
            return Ok(vec![Extent { page: spill * CHUNK_PAGES + what.page % CHUNK_PAGES, ..what }]);
        }
        let pages = find_pages(space, room_for_pages(space, sweep, target), what.pages.into())?;
        Ok(pages.into_iter().map(|run| Extent { role: what.role, ..run }).collect())
    }

    fn relocate(
        &mut self,
        sweep: &mut MoveSweep,
        target: &MoveTarget,
        tag: &str,
        part: Option<&StreamPart>,
    ) -> Result<()> {
        let space = self.pool.space();
        let moved = super::move_tag::relocate(self.pool, self.owners, tag, part, &mut |pages| {
            let room = match sweep.plan.kept.is_empty() {
                true => room_beside_chunks(space, sweep, target),
                false => room_for_pages(space, sweep, target),
            };
            Ok(pages_of(&find_pages(space, room, pages)?))
        });
        let moved = moved.map_err(|error| self.refuse(tag, error))?;
        sweep.survey.relocated(&moved.old, &moved.new);
        self.moved_bytes += part.map_or(0, |part| bytes(part.to.iter().map(|extent| u64::from(extent.pages)).sum()));
        self.transactions += 1;
        Ok(())
    }

    fn move_table(&mut self, sweep: &mut MoveSweep, index: usize, to: Extent) -> Result<()> {
        super::move_tag::move_tag_page(self.pool, index, to)?;
        sweep.survey.table_moved(index, to);
        self.moved_bytes += bytes(1);
        self.transactions += 1;
        Ok(())
    }

    /// Moves the list of extents of `tag` if a page of it is in chunk `out_of`. Returns true if one was.
    fn clear_list(&mut self, sweep: &mut MoveSweep, tag: &Arc<str>, out_of: u64) -> Result<bool> {
        let is_there = self.list_chunks(tag)?.contains(&out_of);
        if is_there {
            let to = page_at(bytes(out_of * CHUNK_PAGES));
            let target = MoveTarget { what: MoveSubject::List { tag: Arc::clone(tag), out_of }, to };
            self.relocate(sweep, &target, tag, None)?;
        }
        Ok(is_there)
    }

    /// Returns the chunks with pages of the list of `tag`'s extents.
    pub(super) fn list_chunks(&self, tag: &str) -> Result<BTreeSet<u64>> {
        let table = self.pool.table();
        let entry = table.tags.get(tag).ok_or_else(|| Error::NotFound(tag.into()))?;
        Ok(entry.overflow.iter().map(|page| page.page / CHUNK_PAGES).collect())
    }
}

/// Chunks, in the order in which pages are taken from them, each with the pages that may be taken.
pub(super) type ChunkRooms = Vec<(u64, Range<u64>)>;

/// In a sweep over pages: returns chunks that will be emptied, then free chunks from the last one on, then space behind
/// `target`, then space left empty before it.
fn room_for_pages(space: &PageAllocator, sweep: &MoveSweep, target: &MoveTarget) -> ChunkRooms {
    let (kinds, idle, kept) = (space.kinds(), space.idle(), &sweep.plan.kept);
    let all = || (0..kinds.len() as u64).rev().filter(|chunk| !sweep.survey.fixed.contains(chunk));
    let normal = |chunk: &u64| kinds[*chunk as usize] == ChunkUse::Normal && !idle[*chunk as usize];
    let given_up = all().filter(|chunk| normal(chunk) && !kept.contains(chunk));
    let free = all().filter(|chunk| idle[*chunk as usize] && !kept.contains(chunk));
    let within =
        |chunk: &u64, page: u64| page.clamp(chunk * CHUNK_PAGES, (chunk + 1) * CHUNK_PAGES) - chunk * CHUNK_PAGES;
    let behind = kept.iter().rev().map(|chunk| (*chunk, within(chunk, target.to.end())..CHUNK_PAGES));
    let before = kept.iter().rev().map(|chunk| (*chunk, 0..within(chunk, target.to.page)));
    given_up.chain(free).map(|chunk| (chunk, 0..CHUNK_PAGES)).chain(behind).chain(before).collect()
}

/// In a sweep over chunks: returns chunks with pages in use that are not being moved, then free chunks.
fn room_beside_chunks(space: &PageAllocator, sweep: &MoveSweep, target: &MoveTarget) -> ChunkRooms {
    let (kinds, idle) = (space.kinds(), space.idle());
    let spill = sweep.spill.map(|(_, spill)| spill);
    let busy = [Some(target.to.page / CHUNK_PAGES), spill];
    let all = || (0..kinds.len() as u64).filter(|chunk| !busy.contains(&Some(*chunk)));
    let normal = all().filter(|chunk| kinds[*chunk as usize] == ChunkUse::Normal && !idle[*chunk as usize]);
    let free = all().rev().filter(|chunk| idle[*chunk as usize]);
    normal.chain(free).map(|chunk| (chunk, 0..CHUNK_PAGES)).collect()
}

/// Returns `pages` free pages from `rooms`.
pub(super) fn find_pages(space: &PageAllocator, rooms: ChunkRooms, pages: u64) -> Result<Vec<Extent>> {
    let (mut found, mut left) = (Vec::new(), pages);
    for (chunk, within) in rooms {
        for run in space.free_pages(chunk).runs() {
            let (first, end) = (run.start.max(within.start), run.end.min(within.end));
            let taken = end.saturating_sub(first).min(left);
            if taken > 0 {
                let page = chunk * CHUNK_PAGES + first;
                found.push(Extent { page, pages: taken as u32, role: Role::MAP, zone: Zone::Normal });
                left -= taken;
            }
        }
        if left == 0 {
            return Ok(found);
        }
    }
    Err(full(space, pages))
}

fn last_idle(space: &PageAllocator) -> Result<u64> {
    let last = space.idle().iter().rposition(|idle| *idle);
    last.map(|chunk| chunk as u64).ok_or_else(|| full(space, CHUNK_PAGES))
}

fn full(space: &PageAllocator, pages: u64) -> Error {
    Error::Full { needed_bytes: bytes(pages), free_bytes: space.usage().free_bytes }
}
