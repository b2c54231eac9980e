//! The pages with the extents of a tag or a grant that do not fit its slot. Their format is in [`crate::tag`].

use std::collections::BTreeSet;

use ferrite_memory::{Memory, Scheme};

use crate::Result;
use crate::extent::{Extent, Role, Zone, page_at};
use crate::layout::PAGE;
use crate::page_allocator::SpaceNeed;
use crate::tag::{OVERFLOW, decode_overflow, encode_overflow};

/// Returns the number of pages for the list of `extents`.
pub(crate) fn count(extents: &[Extent]) -> usize {
    extents.len().div_ceil(OVERFLOW)
}

/// Returns the space of `count` pages.
pub(crate) fn need(count: usize) -> SpaceNeed {
    SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: count as u64 * PAGE }
}

/// Returns the pages of `runs`, one by one.
pub(crate) fn pages_of(runs: &[Extent]) -> Vec<Extent> {
    runs.iter().flat_map(|run| (run.page..run.end()).map(|page| page_at(page * PAGE))).collect()
}

/// Stores the list of `extents` to `pages`, durable on return, before a slot refers to them. Returns the list's byte
/// offset, or 0 for an empty list.
pub(crate) fn store(memory: &dyn Memory, extents: &[Extent], pages: &[Extent]) -> Result<u64> {
    let places: Vec<u64> = pages.iter().map(|page| page.span().at).collect();
    for (place, bytes) in places.iter().zip(encode_overflow(extents, &places)) {
        memory.store(*place, &bytes, Scheme::Nt);
    }
    memory.drain()?;
    Ok(places.first().copied().unwrap_or(0))
}

/// Reads the list of `count` extents at byte `first` of a pool of `pages` pages. Returns its pages and its extents,
/// which are fewer than `count` if the list is damaged. No page is visited twice (tag table T4).
pub(crate) fn load(memory: &dyn Memory, first: u64, count: usize, pages: u64) -> Result<(Vec<Extent>, Vec<Extent>)> {
    let (mut places, mut listed, mut visited) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut next = first;
    while listed.len() < count && next != 0 && next.is_multiple_of(PAGE) && next < pages * PAGE && visited.insert(next)
    {
        let mut page = vec![0; PAGE as usize];
        memory.load(next, &mut page);
        let (extents, after) = decode_overflow(&page, next, pages)?;
        places.push(page_at(next));
        listed.extend(extents);
        next = after;
    }
    Ok((places, listed))
}
