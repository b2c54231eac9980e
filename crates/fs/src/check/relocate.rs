//! Chunks that a defragmentation moves.
//!
//! A chunk's number is bound to its place by one word, which has room for two places. Before the tag names the copy,
//! the word names both: whichever of them the tag has is the right one (FC3). So nothing else changes.

use std::collections::BTreeMap;

use ferrite_memory::Span;
use ferrite_pool::check::MovedRange;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Error, Pool, Result, Role, Stream, Tag};

use crate::format::layout::MapPages;

const LOW: u64 = u32::MAX as u64;

pub(super) fn relocate(pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
    if moved.role != Role::DATA {
        return Ok(());
    }
    let memory = pool.memory();
    let map = MapPages::new(Stream::new(&tag.extents, Role::MAP).runs(Span::new(0, u64::MAX)));
    let places: BTreeMap<u64, u64> = (0..moved.from.len / CHUNK)
        .map(|chunk| ((moved.from.at / CHUNK) + chunk + 1, (moved.to.at / CHUNK) + chunk + 1))
        .collect();
    let targets: Vec<u64> = places.values().copied().collect();
    let words = || (0..map.chunks()).map(|number| map.chunk_word(number)).map(|at| (at, memory.load_word(at)));
    // A free place that once belonged to another chunk must not be assigned to that chunk again.
    for (at, word) in words() {
        let (one, other) = (word & LOW, word >> 32);
        let kept = if targets.contains(&one) { other } else { one };
        if targets.contains(&one) || targets.contains(&other) {
            memory.store_word(at, kept);
            memory.flush(Span::new(at, 8));
        }
    }
    memory.drain()?;
    let mut left = places;
    for (at, word) in words() {
        let Some((from, to)) = [word & LOW, word >> 32].into_iter().find_map(|place| left.remove_entry(&place)) else {
            continue;
        };
        memory.store_word(at, from | to << 32);
        memory.flush(Span::new(at, 8));
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::Busy(format!("the file system {:?} has chunks that it does not know: open it once before", tag.name)))
}
