//! Destaging: dirty pages are gathered, written as one segment, and clean from then on.

use ferrite_memory::{Memory, planted};
use ferrite_pool::layout::PAGE;

use crate::file::{FileLayer, superpage};
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES, SegmentEntry, SegmentNo, SegmentSummary};
use crate::format::word::AwayPage;
use crate::store::clean_list::{CleanOrigin, CleanPage};
use crate::store::slots::{SegmentUse, SlotStore};
use crate::store::tier_members;
use crate::tier::TierWork;
use crate::tier::sweep::{self, SweepCursor, SweptPage};
use crate::{Ino, Result};

/// Which segments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Only full ones.
    Whole,
    /// Also the last one, which may not be full.
    Partly,
}

/// Pages that were copied, and their bytes behind the room for the summary.
struct GatheredPages {
    pages: Vec<SweptPage>,
    bytes: Vec<u8>,
    /// Dirty pages that were looked at, and how many of them were used since the last look.
    looks: u64,
    hits: u64,
}

impl GatheredPages {
    fn is_full(&self) -> bool {
        self.pages.len() as u64 == SEGMENT_PAGES
    }

    /// Sorts the pages by file and page. A sweep that went around the files has them in two parts.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.pages.len()).collect();
        order.sort_unstable_by_key(|index| (self.pages[*index].ino, self.pages[*index].page));
        if order.is_sorted() {
            return;
        }
        let mut bytes = vec![0; self.bytes.len()];
        for (to, from) in order.iter().enumerate() {
            bytes[(to + 1) * PAGE as usize..][..PAGE as usize].copy_from_slice(self.bytes_of(*from));
        }
        self.pages = order.iter().map(|from| self.pages[*from]).collect();
        self.bytes = bytes;
    }

    fn bytes_of(&self, index: usize) -> &[u8] {
        &self.bytes[(index + 1) * PAGE as usize..][..PAGE as usize]
    }
}

/// Destages a segment of pages that were not used lately, or of any if there are too few. Returns false if nothing is
/// to be destaged, or no segment is free.
pub(crate) fn destage(files: &FileLayer, slots: &SlotStore, work: &TierWork, fill: Fill) -> Result<bool> {
    if files.clients.has_orphaned_clients() || !slots.failures.may_write() {
        return Ok(false);
    }
    // Until the shadows are set: a second copy of a page would clear the mark of a store behind the first.
    let mut cursor = work.destage.lock();
    tier_members::renew_ties(files.pool(), &files.tag(), slots, files.now() as u16)?;
    let Some((segment, sequence)) = slots.take_segment(SegmentUse::Destaging) else { return Ok(false) };
    let done = destage_to(files, slots, work, &mut cursor, fill, segment, sequence);
    slots.leave_segment(segment);
    done
}

fn destage_to(
    files: &FileLayer,
    slots: &SlotStore,
    work: &TierWork,
    cursor: &mut SweepCursor,
    fill: Fill,
    segment: SegmentNo,
    sequence: u64,
) -> Result<bool> {
    let mut gathered = gather(files, slots, cursor)?;
    work.balance.note_dirty(gathered.looks, gathered.hits);
    // A file's pages lie together, so that few requests read them.
    gathered.sort();
    if gathered.pages.is_empty() || fill == Fill::Whole && !gathered.is_full() {
        return Ok(false);
    }
    let GatheredPages { pages, .. } = &gathered;
    let aways: Vec<AwayPage> =
        (0..pages.len()).map(|index| AwayPage::new(segment.slot(index as u64), gathered.bytes_of(index))).collect();
    let entry = |(index, swept): (usize, &SweptPage)| SegmentEntry {
        ino: swept.ino.0,
        page: swept.page,
        crc: crc32fast::hash(gathered.bytes_of(index)),
    };
    let entries = pages.iter().enumerate().map(entry).collect();
    let summary = SegmentSummary { segment, sequence, entries }.encode(&slots.salt);
    let pages = gathered.pages;
    let mut bytes = gathered.bytes;
    bytes[..PAGE as usize].copy_from_slice(&summary);
    if slots.write_segment(segment, &bytes).is_err() {
        // The pages stay dirty, and another segment is tried.
        return Ok(slots.failures.may_write());
    }
    slots.counters.destaged_segments.add(1);
    slots.counters.destaged_pages.add(pages.len() as u64);
    planted!("fs: segment written" => ());
    for (swept, away) in pages.iter().zip(aways) {
        // The page may be another file's by now, and its word may be anything.
        let _reading = files.locks.read(swept.ino);
        let is_same = files.load_regular(swept.ino).is_ok_and(|inode| sweep::is_there(files, &inode, swept));
        let is_same = is_same || planted!("fs: unchecked copy");
        if is_same {
            let SweptPage { ino, page, place, .. } = *swept;
            slots.set_shadow(CleanPage { ino, page, place, away }, CleanOrigin::Destaged);
        }
    }
    Ok(true)
}

/// Copies dirty pages, a segment full if there are as many.
fn gather(files: &FileLayer, slots: &SlotStore, cursor: &mut SweepCursor) -> Result<GatheredPages> {
    let mut gathered = GatheredPages { pages: Vec::new(), bytes: vec![0; SEGMENT_BYTES as usize], looks: 0, hits: 0 };
    // The second round takes those that the first one passed over because they were used.
    for _ in 0..2 {
        sweep::sweep(files, cursor, |ino, page| {
            gather_of(files, slots, ino, page, &mut gathered)?;
            Ok(!gathered.is_full())
        })?;
        if gathered.is_full() {
            break;
        }
    }
    Ok(gathered)
}

fn gather_of(
    files: &FileLayer,
    slots: &SlotStore,
    ino: Ino,
    page: &mut u64,
    gathered: &mut GatheredPages,
) -> Result<()> {
    loop {
        let pass = files.gate.pass();
        let has_some = {
            let _reading = files.locks.read(ino);
            let Ok(inode) = files.load(ino) else { return Ok(()) };
            if inode.kind() != Some(crate::FileKind::File) {
                return Ok(());
            }
            let mut has_some = false;
            let next = sweep::pages(files, &inode, *page, |swept| {
                has_some = slots.shadow(swept.place).is_none();
                Ok(!has_some)
            })?;
            has_some || next * PAGE < inode.size()
        };
        if !has_some {
            return Ok(());
        }
        let Some((copying, inode)) = sweep::copying(files, ino) else { return Ok(()) };
        if inode.needs_commit() && !planted!("fs: bytes of a size away") {
            drop((copying, pass));
            commit_size(files, ino)?;
            continue;
        }
        *page = sweep::pages(files, &inode, *page, |swept| {
            copy_if_cold(slots, files.memory(), swept, gathered);
            Ok(!gathered.is_full())
        })?;
        drop((copying, pass));
        if gathered.is_full() || *page * PAGE >= inode.size() {
            return Ok(());
        }
        split_if_cold(files, slots, ino, page)?;
    }
}

/// Dirty pages that one call looks at.
const LOOKS_MAX: u64 = 4096;

/// Looks at up to `count` dirty pages, counts those that were used, and clears their marks. Pages that are copied later
/// were not used since this look.
pub(crate) fn look_at_dirty(files: &FileLayer, slots: &SlotStore, work: &TierWork, count: u64) -> Result<()> {
    // No page is between its copy and its shadow while this thread has the lock.
    let Some(mut cursor) = work.destage.try_lock() else { return Ok(()) };
    let (count, mut looks, mut hits) = (count.min(LOOKS_MAX), 0, 0);
    sweep::sweep(files, &mut cursor, |ino, page| {
        let _reading = files.locks.read(ino);
        let Ok(inode) = files.load_regular(ino) else { return Ok(true) };
        while *page * PAGE < inode.size() && looks < count {
            let next = sweep::pages(files, &inode, *page, |swept| {
                if slots.is_tracked(swept.place) && slots.shadow(swept.place).is_none() {
                    looks += 1;
                    hits += u64::from(slots.take_touched(swept.place) | slots.take_stored(swept.place));
                }
                Ok(looks < count)
            })?;
            *page = if next == *page { superpage::behind(*page) } else { next };
        }
        Ok(looks < count)
    })?;
    work.balance.note_dirty(looks, hits);
    Ok(())
}

/// Copies a dirty page, unless it was read or stored to since the last look (TI4).
fn copy_if_cold(slots: &SlotStore, memory: &dyn Memory, swept: SweptPage, gathered: &mut GatheredPages) {
    if !slots.is_tracked(swept.place) || slots.shadow(swept.place).is_some() {
        return;
    }
    if gathered.pages.iter().any(|other| other.place == swept.place) {
        return;
    }
    let is_used = slots.take_touched(swept.place) | slots.take_stored(swept.place);
    gathered.looks += 1;
    gathered.hits += u64::from(is_used);
    if is_used {
        return;
    }
    let at = (gathered.pages.len() + 1) * PAGE as usize;
    memory.load(swept.place, &mut gathered.bytes[at..at + PAGE as usize]);
    gathered.pages.push(swept);
}

fn commit_size(files: &FileLayer, ino: Ino) -> Result<()> {
    let _pass = files.gate.pass();
    let _stripe = files.locks.write(ino);
    let mut inode = files.load(ino)?;
    crate::file::size::commit_size(files, &mut inode)
}

/// Divides the superpage around `page` if none of its pages was used lately, or passes over it.
fn split_if_cold(files: &FileLayer, slots: &SlotStore, ino: Ino, page: &mut u64) -> Result<()> {
    let _pass = files.gate.pass();
    let stripe = files.locks.write(ino);
    let Ok(mut inode) = files.load(ino) else { return Ok(()) };
    let is_cold = sweep::may_go(files, &stripe, &inode) && superpage::is_cold(files, slots, &inode, *page)?;
    let before = *page;
    *page = superpage::behind(*page);
    if is_cold {
        match superpage::split_super(files, &mut inode, before) {
            Ok(()) => *page = before,
            Err(error) if error.is_no_space() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
