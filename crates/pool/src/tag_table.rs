//! The tag table: every tag of the pool, on the medium and in DRAM.
//!
//! ```text
//! page      0 magic u32   4 crc u32   8 next u64 (byte offset of the next page, or 0)   64 slot[3] of 512 bytes
//!           1600 copy[3] of 512 bytes
//! ```
//!
//! - T1. A tag exists exactly if its slot verifies; slot, allocator and overflow change in one transaction.
//! - T2. The initial content of a tag's space is durable before its slot is.
//! - T3. A generation is never used twice.
//! - T4. Whatever the medium holds, reading the table ends, because no page is visited twice.
//! - T5. A slot has two copies, which the same transactions write: either of them may be damaged.
//! - T6. In a full pool, a shrinking tag stores its new extent list in the space that it frees: on pages without a
//!   grant, to which no record can be replayed. The list is written by the transaction itself, so the old content stays
//!   if that does not commit. Only a list of more than about 1500 extents does not fit the record, and is stored before
//!   it.
//! - T7. A tag of more extents than a record can free is removed in parts, from the end. From the first part on it is
//!   an empty value, so that no service uses the rest; removing the value continues the removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrite_memory::Memory;

use crate::bounds::{SERIAL_BOUND, out_of_bounds};
use crate::damage::TableDamage;
use crate::extent::{Extent, page_at};
use crate::layout::{CHUNK_PAGES, PAGE, TAGS, bitmap_at};
use crate::page_allocator::PageAllocator;
use crate::tag::{self, DecodedTag, SLOT_BYTES, Tag};
use crate::{Error, Result, overflow};

const MAGIC: u32 = u32::from_le_bytes(*b"TAGS");
/// Slots of a page.
pub(crate) const SLOTS: u64 = 3;
/// Byte offset of the first slot in its page.
pub(crate) const FIRST: u64 = 64;

/// Bytes from a slot to its copy.
const COPY: u64 = SLOTS * SLOT_BYTES as u64;
const _: () = assert!(FIRST + 2 * COPY <= PAGE);

/// Returns the byte offsets of a slot and its copy.
pub(crate) fn copies(slot: u64) -> [u64; 2] {
    [slot, slot + COPY]
}

/// A copy of a slot that does not verify.
#[derive(Clone, Debug)]
pub(crate) struct SpoiledCopy {
    /// Byte offset of the copy in the pool.
    pub at: u64,
    /// The bytes of the other copy, which this copy should have.
    pub bytes: [u8; SLOT_BYTES],
}

/// The content of a slot.
struct SlotContent {
    decoded: Option<DecodedTag>,
    spoiled: Option<SpoiledCopy>,
}

/// Reads the slot from a copy that verifies (T5).
fn read_slot(memory: &dyn Memory, slot: u64, pages: u64) -> Result<SlotContent> {
    let [first, copy] = copies(slot).map(|at| {
        let mut bytes = [0; SLOT_BYTES];
        memory.load(at, &mut bytes);
        (at, bytes)
    });
    let decode = |(at, bytes): &(u64, [u8; SLOT_BYTES])| tag::decode_slot(bytes, *at, pages);
    if first.1 == copy.1 {
        return Ok(SlotContent { decoded: decode(&first)?, spoiled: None });
    }
    match (decode(&first), decode(&copy)) {
        (Ok(decoded), Err(_)) => Ok(SlotContent { decoded, spoiled: Some(SpoiledCopy { at: copy.0, bytes: first.1 }) }),
        (Err(_), Ok(decoded)) => Ok(SlotContent { decoded, spoiled: Some(SpoiledCopy { at: first.0, bytes: copy.1 }) }),
        (Err(error), Err(_)) => Err(error),
        (Ok(_), Ok(_)) => Err(Error::corrupt("the tag slot (which differs from its copy)", slot)),
    }
}

/// A tag and its place.
#[derive(Clone, Debug)]
pub(crate) struct TagEntry {
    pub tag: Arc<Tag>,
    pub slot: u64,
    /// The overflow pages.
    pub overflow: Vec<Extent>,
}

/// The table in DRAM.
#[derive(Debug, Default)]
pub(crate) struct TagTable {
    pub tags: BTreeMap<String, TagEntry>,
    pub free_slots: Vec<u64>,
    pub pages: Vec<u64>,
    pub generation: u64,
    /// Copies of slots that do not verify.
    pub spoiled: Vec<SpoiledCopy>,
}

/// Returns the header of a tag page.
pub(crate) fn encode_header(next: u64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..].copy_from_slice(&next.to_le_bytes());
    let crc = crc32fast::hash(&header);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Returns the next page that a header names, or `None` if the header is damaged.
pub(crate) fn decode_header(header: &[u8; 16]) -> Option<u64> {
    let next = u64::from_le_bytes(header[8..].try_into().ok()?);
    (*header == encode_header(next)).then_some(next)
}

impl TagTable {
    /// Reads the whole table of a pool of `pages` pages. Returns the damage of parts that cannot be read, which are
    /// left out.
    pub fn load(memory: &dyn Memory, pages: u64) -> (Self, Vec<TableDamage>) {
        let (mut table, mut damage) = (Self::default(), Vec::new());
        let (mut page, mut visited) = (TAGS, BTreeSet::new());
        while page != 0 {
            let mut header = [0; 16];
            memory.load(page, &mut header);
            let next = decode_header(&header).filter(|next| next % PAGE == 0 && *next < pages * PAGE);
            let Some(next) = next.filter(|_| visited.insert(page)) else {
                let error = Error::corrupt("the header of a tag page", page);
                damage.push(TableDamage { error, at: page, is_slot: false });
                break;
            };
            table.pages.push(page);
            for slot in (0..SLOTS).map(|index| page + FIRST + index * SLOT_BYTES as u64) {
                if let Err(error) = table.load_slot(memory, slot, pages) {
                    damage.push(TableDamage { error, at: slot, is_slot: true });
                }
            }
            page = next;
        }
        table.free_slots.sort_unstable_by(|a, b| b.cmp(a));
        (table, damage)
    }

    fn load_slot(&mut self, memory: &dyn Memory, slot: u64, pages: u64) -> Result<()> {
        let SlotContent { decoded, spoiled } = read_slot(memory, slot, pages)?;
        self.spoiled.extend(spoiled);
        let Some(decoded) = decoded else {
            self.free_slots.push(slot);
            return Ok(());
        };
        let (mut tag, listed) = (decoded.tag, decoded.extents);
        let (overflow, rest) = overflow::load(memory, decoded.overflow, listed - tag.extents.len(), pages)?;
        tag.extents.extend(rest);
        if tag.extents.len() != listed {
            return Err(Error::corrupt(format!("the list of extents of tag {:?}", tag.name), slot));
        }
        if self.tags.contains_key(&tag.name) {
            return Err(Error::corrupt(format!("a second tag called {:?}", tag.name), slot));
        }
        self.generation = self.generation.max(tag.generation);
        self.tags.insert(tag.name.clone(), TagEntry { tag: Arc::new(tag), slot, overflow });
        Ok(())
    }

    /// Returns the generation of a new tag (T3).
    ///
    /// # Errors
    /// [`Error::Limit`] if none is left.
    pub fn next_generation(&mut self) -> Result<u64> {
        let next = self.generation + 1;
        if next >= SERIAL_BOUND {
            return Err(Error::Limit(
                out_of_bounds("the next generation of a tag", next) + " is refused: restore a backup",
            ));
        }
        self.generation = next;
        Ok(next)
    }

    /// Returns the place and the current state of `tag`; fails if the name now belongs to another tag or to none.
    pub fn current(&self, tag: &Tag) -> Result<TagEntry> {
        let entry = self.tags.get(&tag.name).filter(|entry| entry.tag.generation == tag.generation);
        entry.cloned().ok_or_else(|| Error::NotFound(tag.name.clone()))
    }

    /// Verifies that the allocator has marked all pages of the tags, and that no page belongs to two tags. The
    /// allocator's tables have no checksum, so this check detects their damage.
    pub fn check_space(&self, space: &PageAllocator) -> Result<()> {
        let own = self.pages.iter().skip(1).map(|page| (page_at(*page), "the tag table"));
        let of_tags = self.tags.iter().flat_map(|(name, entry)| {
            entry.tag.extents.iter().chain(&entry.overflow).map(move |extent| (*extent, name.as_str()))
        });
        let mut used: Vec<(Extent, &str)> = own.chain(of_tags).collect();
        used.sort_unstable();
        if let Some((extent, name)) = used.iter().find(|(extent, _)| !space.in_use(*extent)) {
            let what =
                format!("the allocator's table, by which the space of {name:?} from page {} on is free,", extent.page);
            return Err(Error::corrupt(what, bitmap_at(extent.page / CHUNK_PAGES)));
        }
        if let Some(pair) = used.windows(2).find(|pair| pair[0].0.end() > pair[1].0.page) {
            let what = format!("the space of {:?}, which {:?} uses too,", pair[0].1, pair[1].1);
            return Err(Error::corrupt(what, pair[1].0.span().at));
        }
        Ok(())
    }

    /// Returns the slots of the page at byte `page`, the last one first.
    pub fn slots_of(page: u64) -> impl Iterator<Item = u64> {
        (0..SLOTS).rev().map(move |index| page + FIRST + index * SLOT_BYTES as u64)
    }
}
