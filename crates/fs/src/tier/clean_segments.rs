//! Cleaning: the pages of a segment that words still name come to the pool, and the segment is free then.

use std::collections::BTreeMap;

use crate::file::{FileLayer, bring_in};
use crate::format::segment::SegmentNo;
use crate::store::slots::SlotStore;
use crate::{Ino, Result};
use ferrite_pool::layout::PAGE;

/// Makes the segment with the fewest named slots free. Returns false if none can be made free with less than it has.
pub(crate) fn clean_one(files: &FileLayer, slots: &SlotStore) -> Result<bool> {
    let Some(segment) = slots.sparsest() else { return Ok(false) };
    let Some(summary) = slots.summary(segment)? else { return Ok(false) };
    let mut pages: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for entry in &summary.entries {
        pages.entry(entry.ino).or_default().push(entry.page);
    }
    for (ino, pages) in pages {
        for page in pages {
            bring_in_page(files, segment, Ino(ino), page)?;
        }
    }
    slots.forget_shadows_in(segment);
    Ok(slots.is_free(segment))
}

fn bring_in_page(files: &FileLayer, segment: SegmentNo, ino: Ino, page: u64) -> Result<()> {
    let done = files.with_pages(|| {
        let _pass = files.gate.pass();
        let _stripe = files.locks.write(ino);
        let Ok(mut inode) = files.load_regular(ino) else { return Ok(()) };
        bring_in::bring_in_from(files, &mut inode, page * PAGE..(page + 1) * PAGE, Some(segment))
    });
    match done {
        // The pool is full: the segment stays.
        Err(error) if error.is_no_space() => Ok(()),
        done => done,
    }
}
