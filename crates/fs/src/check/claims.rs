//! Which page is named by whom.
//!
//! - FJ1. A page of content that two words name is copied for the second: a file may have foreign content then, and none
//!   has lost its own. The pages of an inode are counted once its copies exist.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ferrite_pool::layout::CHUNK_PAGES;

use super::media::CheckedChunk;
use super::{CheckedMedia, Fix, FsFinding};
use crate::Ino;
use crate::format::layout::BITMAP;
use crate::format::layout::ChunkKind;
use crate::format::segment::Slot;
use crate::format::word::IndexWord;

/// A page of content that two words name; the second gets a copy.
#[derive(Debug)]
pub(crate) struct ContestedPage {
    /// The inode of the second word.
    pub ino: Ino,
    pub other: Ino,
    pub page: u64,
    /// The second word.
    pub at: u64,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageClaim {
    /// No other word named the page before.
    Own,
    /// This inode named it before.
    Taken(Ino),
    /// No page of this kind has the number.
    Absent,
}

/// Pages that are named, and the inode that does.
#[derive(Debug, Default)]
pub(crate) struct PageClaims {
    pages: BTreeMap<u64, Ino>,
    slots: BTreeMap<Slot, Ino>,
    /// The kinds of which each chunk was named although it is of another.
    pub misnamed: BTreeMap<u64, BTreeSet<u8>>,
}

impl PageClaims {
    /// Inode `ino` names `page` of a chunk of kind `kind`.
    pub fn claim(&mut self, media: &CheckedMedia<'_>, page: u64, kind: ChunkKind, ino: Ino) -> PageClaim {
        if media.chunk_of(page, kind).is_none() {
            self.note_misnamed(page / CHUNK_PAGES, kind);
            return PageClaim::Absent;
        }
        match self.pages.get(&page) {
            Some(other) => PageClaim::Taken(*other),
            None => {
                self.pages.insert(page, ino);
                PageClaim::Own
            }
        }
    }

    /// Inode `ino` names `slot`. Returns the inode that named it before.
    pub fn claim_slot(&mut self, slot: Slot, ino: Ino) -> Option<Ino> {
        match self.slots.entry(slot) {
            Entry::Occupied(other) => Some(*other.get()),
            Entry::Vacant(free) => {
                free.insert(ino);
                None
            }
        }
    }

    /// Chunk `number` was named as one of kind `kind`, and is of another.
    pub fn note_misnamed(&mut self, number: u64, kind: ChunkKind) {
        self.misnamed.entry(number).or_default().insert(kind as u8);
    }

    /// Returns true if an inode names a page of chunk `number`.
    pub fn is_any_in(&self, number: u64) -> bool {
        self.pages.range(number * CHUNK_PAGES..(number + 1) * CHUNK_PAGES).next().is_some()
    }

    /// Gives the second of two words that name one page a copy of it (FJ1).
    pub fn copy(&self, media: &CheckedMedia<'_>, all: &[ContestedPage], wrong: &mut Vec<FsFinding>) {
        let mut free = self.free_pages(media);
        for ContestedPage { ino, other, page, at } in all {
            let what = format!("inode {} names page {page}, which inode {} names too", ino.0, other.0);
            let fix = match (free.next(), media.place(*page, ChunkKind::Data)) {
                // Once it is named it is marked in use, as any other.
                (Some((copy, to)), Some(from)) => {
                    let done = format!("inode {} has a copy of it: one of the two has what is not its own", ino.0);
                    Fix { copy: Some((from, to)), ..Fix::word(*at, IndexWord::page(copy).0, done) }
                }
                _ => Fix::word(*at, 0, format!("inode {} has nothing there now; what it had is lost", ino.0)),
            };
            wrong.push(FsFinding::new(what, *at).fixed_by(fix));
        }
    }

    /// Unnamed pages of content that are marked free, with their places.
    fn free_pages<'a>(&'a self, media: &'a CheckedMedia<'_>) -> impl Iterator<Item = (u64, u64)> + 'a {
        let pages = (0..media.chunks.len() as u64 * CHUNK_PAGES).filter(|page| !self.pages.contains_key(page));
        pages.filter_map(move |page| {
            let chunk = media.chunk_of(page, ChunkKind::Data)?;
            let index = page % CHUNK_PAGES;
            let is_free = chunk.bitmap[(index / 64) as usize] >> (index % 64) & 1 == 0;
            is_free.then_some((page, media.place(page, ChunkKind::Data)?))
        })
    }

    /// Reports where the bits of slots differ (TI2). Unnamed ones are freed if no error can hide their names (`is_all`).
    pub fn against_slots(&self, media: &CheckedMedia<'_>, is_all: bool, wrong: &mut Vec<FsFinding>) {
        let Some(slots) = &media.slots else { return };
        let mut named: BTreeMap<u64, u64> = BTreeMap::new();
        for slot in self.slots.keys() {
            let (at, bit) = slots.table.named_bit(*slot);
            *named.entry(at).or_default() |= bit;
        }
        for at in slots.words() {
            let (named, marked) = (named.get(&at).copied().unwrap_or(0), media.memory.load_word(at));
            let (missing, leaked) = ((named & !marked).count_ones(), (marked & !named).count_ones());
            if missing > 0 {
                let found = FsFinding::new(format!("{missing} slots of SSDs are named and marked free"), at);
                wrong.push(found.fixed_by(Fix::word(at, named | marked, "they are marked in use")));
            } else if leaked > 0 {
                let found =
                    FsFinding::new(format!("{leaked} slots of SSDs are marked in use, and no inode names them"), at);
                wrong.push(if is_all { found.fixed_by(Fix::word(at, named, "they are free")) } else { found });
            }
        }
    }

    /// Reports where the bitmaps differ. Unnamed pages are freed if no error can hide their names (`is_all`).
    pub fn against_bitmaps(&self, media: &CheckedMedia<'_>, is_all: bool, wrong: &mut Vec<FsFinding>) {
        for (number, chunk) in (0..).zip(&media.chunks) {
            let (first, at) = (number * CHUNK_PAGES, media.map.descriptor(number));
            let mut is_unnamed = |what| {
                let found = FsFinding::new(format!("chunk {number} {what}"), at);
                wrong.push(if is_all { found.fixed_by(Fix::word(at, 0, "it is free")) } else { found });
            };
            match chunk {
                None if media.bases[number as usize].is_some() => is_unnamed("is of an unknown kind, and has no names"),
                Some(chunk) if chunk.kind == ChunkKind::Super && !self.pages.contains_key(&first) => {
                    is_unnamed("is a superpage that no file names");
                }
                Some(chunk) if matches!(chunk.kind, ChunkKind::Data | ChunkKind::Index) => {
                    self.against_bitmap(chunk, first, at, is_all, wrong);
                }
                _ => {}
            }
        }
    }

    fn against_bitmap(&self, chunk: &CheckedChunk, first: u64, at: u64, is_all: bool, wrong: &mut Vec<FsFinding>) {
        let mut named = [0_u64; 8];
        self.pages.range(first..first + CHUNK_PAGES).for_each(|(page, _)| {
            let index = page - first;
            named[(index / 64) as usize] |= 1 << (index % 64);
        });
        let count = |words: [u64; 8]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let both = |keep: fn(u64, u64) -> u64| std::array::from_fn(|i| keep(named[i], chunk.bitmap[i]));
        let missing = count(both(|named, marked| named & !marked));
        let leaked = count(both(|named, marked| marked & !named));
        let set = |words: [u64; 8], done: &str| {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Fix { writes: vec![(at + BITMAP, bytes)], copy: None, done: done.into() }
        };
        if missing > 0 {
            let what = format!("{missing} pages of chunk {} are named and marked free", first / CHUNK_PAGES);
            wrong.push(
                FsFinding::new(what, at).fixed_by(set(both(|named, marked| named | marked), "they are marked in use")),
            );
        } else if leaked > 0 {
            let what =
                format!("{leaked} pages of chunk {} are marked in use, and no inode names them", first / CHUNK_PAGES);
            let found = FsFinding::new(what, at);
            wrong.push(if is_all { found.fixed_by(set(named, "they are free")) } else { found });
        }
    }
}
