//! Cleaning: the pages of sparse segments that words still name go to one new segment, and the sparse ones are free then.
//!
//! The pages do not pass through the pool, so that a full pool and full SSDs do not wait for each other: one segment is
//! always left for this.

use std::collections::BTreeMap;

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES, SegmentEntry, SegmentNo, SegmentSummary, Slot};
use crate::format::word::{AwayPage, IndexWord, NamedBy};
use crate::store::change::FsChange;
use crate::store::slots::{SegmentUse, SlotStore};
use crate::store::tier_members;
use crate::tier::TierWork;
use crate::{Ino, Result};

/// A page that goes to another segment.
struct MovingPage {
    entry: SegmentEntry,
    from: Slot,
}

/// Pages that were read, and their bytes behind the room for the summary.
struct MovingPages {
    pages: Vec<MovingPage>,
    bytes: Vec<u8>,
}

/// Makes more segments free than it writes. Returns false if that is impossible.
pub(crate) fn clean(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<bool> {
    if !slots.failures.may_write() {
        return Ok(false);
    }
    // No other thread writes a victim again while its pages move: only the check would distinguish its words.
    let _alone = (!planted!("fs: shared cleaning")).then(|| work.destage.lock());
    // Segments that are nearly full are filled up from one that becomes sparser, until that is empty too (TI12).
    for _ in 0..=SEGMENT_PAGES {
        let victims = slots.sparse(SEGMENT_PAGES);
        if victims.len() < 2 || !move_pages(files, slots, &victims)? {
            return Ok(false);
        }
        // An eviction that is about to commit names shadows (TI3).
        let _still = work.evict.lock();
        let is_empty = |victim: &&SegmentNo| slots.named_in(files.memory(), **victim) == [0; 2];
        victims.iter().filter(is_empty).for_each(|victim| slots.forget_shadows_in(*victim));
        let cleaned = victims.iter().filter(|victim| slots.is_free(**victim)).count();
        slots.counters.cleaned_segments.add(cleaned as u64);
        match cleaned {
            0 => return Ok(false),
            1 => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Moves the pages of `victims` that words name to one new segment, as far as it has room. Returns false if no segment is
/// free. The caller keeps others from writing segments.
pub(crate) fn move_pages(files: &FileLayer, slots: &SlotStore, victims: &[SegmentNo]) -> Result<bool> {
    let mut moving = MovingPages { pages: Vec::new(), bytes: vec![0; SEGMENT_BYTES as usize] };
    for victim in victims {
        read_named(files, slots, *victim, &mut moving)?;
    }
    if moving.pages.is_empty() {
        return Ok(true);
    }
    tier_members::renew_ties(files.pool(), &files.tag(), slots, files.now() as u16)?;
    let Some((segment, sequence)) = slots.take_segment(SegmentUse::Cleaning) else { return Ok(false) };
    let moved = move_to(files, slots, segment, sequence, &mut moving);
    slots.leave_segment(segment);
    moved?;
    slots.counters.moved_pages.add(moving.pages.len() as u64);
    Ok(true)
}

/// Reads what words name of `victim`.
fn read_named(files: &FileLayer, slots: &SlotStore, victim: SegmentNo, moving: &mut MovingPages) -> Result<()> {
    let named = slots.named_in(files.memory(), victim);
    if named == [0; 2] {
        return Ok(());
    }
    let (summary, bytes) = slots.read_segment(victim)?;
    for (page, entry) in (0..).zip(summary.entries) {
        let slot = victim.slot(page);
        let is_named = named[(slot.block() / 64) as usize] >> (slot.block() % 64) & 1 == 1;
        if is_named && (moving.pages.len() as u64) < SEGMENT_PAGES {
            let (from, to) = (slot.block() as usize, moving.pages.len() + 1);
            let [from, to] = [from, to].map(|block| block * PAGE as usize..(block + 1) * PAGE as usize);
            moving.bytes[to].copy_from_slice(&bytes[from]);
            moving.pages.push(MovingPage { entry, from: slot });
        }
    }
    Ok(())
}

/// Writes the pages to `segment`, and lets their words name them there.
fn move_to(
    files: &FileLayer,
    slots: &SlotStore,
    segment: SegmentNo,
    sequence: u64,
    moving: &mut MovingPages,
) -> Result<()> {
    let entries = moving.pages.iter().map(|moving| moving.entry).collect();
    let summary = SegmentSummary { segment, sequence, entries }.encode(&slots.salt);
    moving.bytes[..PAGE as usize].copy_from_slice(&summary);
    slots.write_segment(segment, &moving.bytes)?;
    let mut of_files: BTreeMap<u64, Vec<(u64, AwayPage, AwayPage)>> = BTreeMap::new();
    for (number, page) in (0..).zip(&moving.pages) {
        let bytes = &moving.bytes[(number as usize + 1) * PAGE as usize..][..PAGE as usize];
        let (from, to) = (AwayPage::new(page.from, bytes), AwayPage::new(segment.slot(number), bytes));
        of_files.entry(page.entry.ino).or_default().push((page.entry.page, from, to));
    }
    of_files.into_iter().try_for_each(|(ino, pages)| rename_slots(files, Ino(ino), &pages))
}

/// Replaces the slots that words of `ino` name by their new slots, where they name the old ones still.
fn rename_slots(files: &FileLayer, ino: Ino, pages: &[(u64, AwayPage, AwayPage)]) -> Result<()> {
    let _pass = files.gate.pass();
    let _stripe = files.locks.write(ino);
    let Ok(mut inode) = files.load(ino) else { return Ok(()) };
    let mut change = FsChange::new(files);
    for (page, from, to) in pages {
        let IndexEntry::Words { at, .. } = index::walk(files, &inode, *page)? else { continue };
        let word = IndexWord(files.memory().load_word(at));
        if word.named() == NamedBy::Away(*from) {
            change.set_word(&mut inode, at, IndexWord::away(*to));
            change.name_slot(to.slot);
            change.free_word(word);
        }
    }
    change.commit_head(&mut inode)
}
