//! Eviction: clean pages leave the pool, and their words name the slots that have the same bytes.

use crate::file::{FileLayer, size};
use crate::format::word::IndexWord;
use crate::store::change::FsChange;
use crate::store::slots::SlotStore;
use crate::tier::TierWork;
use crate::tier::sweep::{self, SweptPage};
use crate::{Ino, Result};

/// Pages that one change evicts. Few in tests, so that small files too are evicted by steps.
const EVICTED_PAGES_MAX: usize = if cfg!(test) { 8 } else { 256 };
/// Pages after which a call ends.
const ENOUGH_PAGES: u64 = 512;

/// Evicts clean pages that were not used lately, or used ones if there are no others. Returns how many.
pub(crate) fn evict(files: &FileLayer, slots: &SlotStore, work: &TierWork) -> Result<u64> {
    if slots.clean_pages() == 0 {
        return Ok(0);
    }
    let (mut evicted, mut cursor) = (0, work.evict.lock());
    for _ in 0..2 {
        sweep::sweep(files, &mut cursor, |ino, page| {
            evicted += evict_of(files, slots, ino, page)?;
            Ok(evicted < ENOUGH_PAGES)
        })?;
        if evicted > 0 {
            break;
        }
    }
    slots.counters.evicted_pages.add(evicted);
    Ok(evicted)
}

/// Evicts pages of one file, from `page` on.
fn evict_of(files: &FileLayer, slots: &SlotStore, ino: Ino, page: &mut u64) -> Result<u64> {
    let mut evicted = 0;
    while evicted < ENOUGH_PAGES {
        let _pass = files.gate.pass();
        let has_some = {
            let _reading = files.locks.read(ino);
            let Ok(inode) = files.load(ino) else { return Ok(evicted) };
            !clean_pages(files, slots, &inode, *page, 1)?.is_empty()
        };
        if !has_some {
            return Ok(evicted);
        }
        let Some((copying, mut inode)) = sweep::copying(files, ino) else { return Ok(evicted) };
        let mut found = clean_pages(files, slots, &inode, *page, EVICTED_PAGES_MAX)?;
        let Some(last) = found.last() else { return Ok(evicted) };
        *page = last.page + 1;
        found.retain(|swept| !slots.take_touched(swept.place));
        if found.is_empty() {
            continue;
        }
        let _writing = copying.upgrade();
        // Bytes on which the size rests stay (TI8).
        size::commit_size(files, &mut inode)?;
        let mut change = FsChange::new(files);
        for swept in &found {
            let Some(away) = slots.shadow(swept.place) else { continue };
            evicted += 1;
            change.set_word(&mut inode, swept.word_at, IndexWord::away(away));
            change.name_slot(away.slot);
            change.free_word(swept.word);
        }
        change.commit_head(&mut inode)?;
    }
    Ok(evicted)
}

fn clean_pages(
    files: &FileLayer,
    slots: &SlotStore,
    inode: &crate::format::inode::Inode,
    from: u64,
    most: usize,
) -> Result<Vec<SweptPage>> {
    let (mut found, mut page) = (Vec::new(), from);
    if inode.kind() != Some(crate::FileKind::File) {
        return Ok(found);
    }
    let end = inode.size();
    while page * ferrite_pool::layout::PAGE < end && found.len() < most {
        let next = sweep::pages(files, inode, page, |swept| {
            if slots.shadow(swept.place).is_some() {
                found.push(swept);
            }
            Ok(found.len() < most)
        })?;
        page = if next == page { crate::file::superpage::behind(page) } else { next };
    }
    Ok(found)
}
