//! The transactions of a defragmentation: each moves one thing as a whole or not at all (X1).

use ferrite_memory::{Memory, Scheme, Span};

use crate::check::{MovedRange, TagOwners};
use crate::extent::{Extent, page_at};
use crate::layout::PAGE;
use crate::tag::{SLOT_BYTES, Tag};
use crate::tag_table::{FIRST, SLOTS, TagEntry, encode_header};
use crate::{Error, Pool, Result, overflow};

use super::stream_piece::{StreamPart, copies, joined, replaced};

/// Bytes that are copied at a time.
const BLOCK_BYTES: u64 = 256 << 10;

/// A tag before and after a relocation.
#[derive(Debug)]
pub(super) struct RelocatedTag {
    pub old: TagEntry,
    pub new: TagEntry,
}

/// Finds the given number of free pages for extents that do not fit a slot.
pub(super) type FreePageSource<'a> = &'a mut dyn FnMut(u64) -> Result<Vec<Extent>>;

/// Joins the extents of tag `name`, and moves `part` of it to pages that are free now. The copy is durable before
/// the slot that refers to it (X1, T2).
pub(super) fn relocate(
    pool: &Pool,
    owners: &TagOwners,
    name: &str,
    part: Option<&StreamPart>,
    room: FreePageSource<'_>,
) -> Result<RelocatedTag> {
    let mut transaction = pool.transaction();
    let mut table = pool.table();
    let old = table.tags.get(name).cloned().ok_or_else(|| Error::NotFound(name.into()))?;
    let (extents, left) = match part {
        Some(part) => replaced(&old.tag.extents, part),
        None => (joined(&old.tag.extents), Vec::new()),
    };
    let mut reserved = pool.reserve();
    let to = part.map_or(&[][..], |part| &part.to);
    to.iter().try_for_each(|extent| reserved.take_at(*extent))?;
    let tag = Tag { extents, ..(*old.tag).clone() };
    let overflow = match overflow::count(tag.rest()) as u64 {
        0 => Vec::new(),
        pages => room(pages)?,
    };
    overflow.iter().try_for_each(|page| reserved.take_at(*page))?;
    if let Some(part) = part {
        copy(pool, owners, &old.tag, part, &left)?;
    }
    transaction.adopt(reserved);
    transaction.free(&left);
    transaction.free(&old.overflow);
    let new = pool.write_slot_with(&mut transaction, tag, old.slot, overflow)?;
    transaction.commit()?;
    table.tags.insert(name.into(), new.clone());
    drop(table);
    pool.return_free_chunks(&left);
    pool.return_free_chunks(&old.overflow);
    pool.check_poison()?;
    Ok(RelocatedTag { old, new })
}

/// Moves page `index` of the tag table, not the first, to the free page `to`.
pub(super) fn move_tag_page(pool: &Pool, index: usize, to: Extent) -> Result<()> {
    let mut transaction = pool.transaction();
    let mut table = pool.table();
    let (before, old, new) = (table.pages[index - 1], table.pages[index], to.span().at);
    let mut reserved = pool.reserve();
    reserved.take_at(to)?;
    // The page includes all earlier transactions, so a replay of them gives the same page.
    copy_bytes(pool.memory(), Span::new(old, PAGE), Span::new(new, PAGE));
    pool.memory().drain().inspect_err(|error| pool.poison(error))?;
    transaction.adopt(reserved);
    transaction.write(before, &encode_header(new));
    transaction.free(&[page_at(old)]);
    transaction.commit()?;
    table.pages[index] = new;
    let slots = old + FIRST..old + FIRST + SLOTS * SLOT_BYTES as u64;
    let table = &mut *table;
    let named = table.tags.values_mut().map(|entry| &mut entry.slot).chain(&mut table.free_slots);
    named.filter(|slot| slots.contains(slot)).for_each(|slot| *slot = *slot - old + new);
    pool.return_free_chunks(&[page_at(old)]);
    pool.check_poison()
}
/// Copies `part` of `tag` from `old` and lets its owner adapt the copy. The next settle makes it durable.
fn copy(pool: &Pool, owners: &TagOwners, tag: &Tag, part: &StreamPart, old: &[Extent]) -> Result<()> {
    let owner =
        owners.of(tag.kind).ok_or_else(|| Error::Busy(format!("this program has no owner for tag {:?}", tag.name)))?;
    let copies = copies(old, &part.to);
    copies.iter().for_each(|(from, to)| copy_bytes(pool.memory(), *from, *to));
    // The owner may store words into lines that were stored past the cache.
    pool.memory().fence();
    copies.into_iter().try_for_each(|(from, to)| owner.relocate(pool, tag, &MovedRange { role: part.role, from, to }))
}

fn copy_bytes(memory: &dyn Memory, from: Span, to: Span) {
    let mut block = vec![0; BLOCK_BYTES.min(from.len) as usize];
    for done in (0..from.len).step_by(BLOCK_BYTES as usize) {
        let block = &mut block[..BLOCK_BYTES.min(from.len - done) as usize];
        memory.load(from.at + done, block);
        memory.store(to.at + done, block, Scheme::Nt);
    }
}
