//! Destaging: dirty pages are gathered, written as one segment, and clean from then on.

use ferrite_pool::layout::PAGE;

use crate::file::{FileLayer, superpage};
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES, SegmentEntry, SegmentNo, SegmentSummary};
use crate::format::word::AwayPage;
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
}

impl GatheredPages {
    fn is_full(&self) -> bool {
        self.pages.len() as u64 == SEGMENT_PAGES
    }

    fn bytes_of(&self, index: usize) -> &[u8] {
        &self.bytes[(index + 1) * PAGE as usize..][..PAGE as usize]
    }
}

/// Destages a segment of pages that were not used lately, or of any if there are too few. Returns false if nothing is
/// to be destaged, or no segment is free.
pub(crate) fn destage(files: &FileLayer, slots: &SlotStore, work: &TierWork, fill: Fill) -> Result<bool> {
    if files.clients.has_orphaned_clients() || slots.failure().is_some() {
        return Ok(false);
    }
    // Until the shadows are set: a second copy of a page would clear the mark of a store behind the first.
    let mut cursor = work.destage.lock();
    tier_members::renew_ties(files.pool(), &files.tag(), slots, files.now() as u16)?;
    let Some((segment, sequence)) = slots.take_segment(SegmentUse::Destaging) else { return Ok(false) };
    let done = destage_to(files, slots, &mut cursor, fill, segment, sequence);
    slots.leave_segment(segment);
    done
}

fn destage_to(
    files: &FileLayer,
    slots: &SlotStore,
    cursor: &mut SweepCursor,
    fill: Fill,
    segment: SegmentNo,
    sequence: u64,
) -> Result<bool> {
    let gathered = gather(files, slots, cursor)?;
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
        return Ok(slots.failure().is_none());
    }
    slots.counters.destaged_segments.add(1);
    slots.counters.destaged_pages.add(pages.len() as u64);
    for (swept, away) in pages.iter().zip(aways) {
        // The page may be another file's by now, and its word may be anything.
        let _reading = files.locks.read(swept.ino);
        let is_same = files.load_regular(swept.ino).is_ok_and(|inode| sweep::is_there(files, &inode, swept));
        if is_same {
            slots.set_shadow(swept.place, away);
        }
    }
    Ok(true)
}

/// Copies dirty pages, a segment full if there are as many.
fn gather(files: &FileLayer, slots: &SlotStore, cursor: &mut SweepCursor) -> Result<GatheredPages> {
    let mut gathered = GatheredPages { pages: Vec::new(), bytes: vec![0; SEGMENT_BYTES as usize] };
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
        if inode.needs_commit() {
            drop((copying, pass));
            commit_size(files, ino)?;
            continue;
        }
        *page = sweep::pages(files, &inode, *page, |swept| {
            copy_if_cold(files, slots, swept, gathered);
            Ok(!gathered.is_full())
        })?;
        drop((copying, pass));
        if gathered.is_full() || *page * PAGE >= inode.size() {
            return Ok(());
        }
        split_if_cold(files, slots, ino, page)?;
    }
}

/// Copies a dirty page, unless it was used since the last look (TI4).
fn copy_if_cold(files: &FileLayer, slots: &SlotStore, swept: SweptPage, gathered: &mut GatheredPages) {
    if !slots.is_tracked(swept.place) || slots.take_touched(swept.place) || slots.shadow(swept.place).is_some() {
        return;
    }
    if gathered.pages.iter().any(|other| other.place == swept.place) {
        return;
    }
    slots.clear_stored(swept.place);
    let at = (gathered.pages.len() + 1) * PAGE as usize;
    files.memory().load(swept.place, &mut gathered.bytes[at..at + PAGE as usize]);
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
