//! Eviction: clean pages leave the pool, and their words name the slots that have the same bytes.

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use crate::file::{FileLayer, size};
use crate::format::segment::SEGMENT_PAGES;
use crate::format::tier_policy::TierPolicy;
use crate::format::word::IndexWord;
use crate::store::change::FsChange;
use crate::store::clean_list::CleanPage;
use crate::store::slots::SlotStore;
use crate::tier::sweep::{self, SweptPage};
use crate::tier::{TierWork, destage};
use crate::{Ino, Result};

/// Pages that one change evicts. Few in tests, so that small files too are evicted by steps.
const EVICTED_PAGES_MAX: usize = if cfg!(test) { 8 } else { 256 };
/// Pages after which a call ends: a segment's worth, so that little more leaves the pool than has to.
const ENOUGH_PAGES: usize = if cfg!(test) { 32 } else { SEGMENT_PAGES as usize };

/// Evicts clean pages that were not used lately, or used ones if there are no others. Returns how many.
pub(crate) fn evict(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<u64> {
    if slots.clean_pages() == 0 {
        return Ok(0);
    }
    let _alone = work.evict.lock();
    let mut victims = slots.take_victims(ENOUGH_PAGES);
    work.balance.note_clean(victims.looks, victims.hits);
    planted!("fs: victims taken" => ());
    // A page that came back to its place before its old entry was met has two entries, and is freed once.
    let key = |page: &CleanPage| (page.ino, page.page, page.place, IndexWord::away(page.away).0);
    victims.pages.sort_unstable_by_key(key);
    if !planted!("fs: victim taken twice") {
        victims.pages.dedup_by_key(|page| key(page));
    }
    let (mut evicted, mut failed) = (0, None);
    for pages in victims.pages.chunk_by(|one, next| one.ino == next.ino) {
        for pages in pages.chunks(EVICTED_PAGES_MAX) {
            let done = if failed.is_none() { evict_of(files, slots, pages[0].ino, pages) } else { Ok(0) };
            match done {
                Ok(count) => evicted += count,
                Err(error) => failed = Some(error),
            }
        }
    }
    slots.counters.evicted_pages.add(evicted);
    // Pages whose files are busy are looked at again later; entries of pages that were evicted are outdated by then.
    victims
        .pages
        .into_iter()
        .filter(|page| slots.shadow(page.place) == Some(page.away))
        .for_each(|page| slots.keep_clean(page));
    if slots.policy() == TierPolicy::Paper {
        // The same part of the dirty pages is looked at, so that the uses of both can be compared.
        let (used, clean) = (files.content_space().used / PAGE, slots.clean_pages().max(1));
        destage::look_at_dirty(files, slots, work, victims.looks * used.saturating_sub(clean) / clean)?;
    }
    match failed {
        Some(error) if evicted == 0 => Err(error),
        _ => Ok(evicted),
    }
}

/// Evicts `pages`, which are of one file.
fn evict_of(files: &FileLayer, slots: &SlotStore, ino: Ino, pages: &[CleanPage]) -> Result<u64> {
    let _pass = files.gate.pass();
    let Some((copying, mut inode)) = sweep::copying(files, ino) else { return Ok(0) };
    let there = |page: &CleanPage| -> Option<SweptPage> { sweep::find(files, &inode, page) };
    let found: Vec<(SweptPage, CleanPage)> = pages.iter().filter_map(|page| Some((there(page)?, *page))).collect();
    if found.is_empty() {
        return Ok(0);
    }
    let _writing = copying.upgrade();
    // Bytes on which the size rests stay (TI8).
    if !planted!("fs: bytes of a size away") {
        size::commit_size(files, &mut inode)?;
    }
    let (mut change, mut evicted) = (FsChange::new(files), 0);
    for (swept, page) in &found {
        if slots.shadow(swept.place) != Some(page.away) && !planted!("fs: victim without a second look") {
            continue;
        }
        evicted += 1;
        if !planted!("fs: shadow instead of a name") {
            change.set_word(&mut inode, swept.word_at, IndexWord::away(page.away));
            change.name_slot(page.away.slot);
        }
        change.free_word(swept.word);
    }
    planted!("fs: bytes of a size away" => return change.commit().map(|()| evicted));
    change.commit_head(&mut inode)?;
    Ok(evicted)
}
