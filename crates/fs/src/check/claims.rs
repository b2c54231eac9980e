//! Which page is named by whom.
//!
//! Where two inodes name a page, a word of one of them is damaged. What the other one has is not to be lost by that.
//!
//! - FJ1. The page goes to the inode that it fits: one that alone would have as many pages as it says, all of them
//!   sound. If the page fits both or none, it goes to the inode that is looked at first.
//! - FJ2. The other inode gets a copy if the page fits it too, and a file also if the page fits none. Content is
//!   always copied, in either order; a superpage never is. The pages of the other inode are counted once the copy
//!   exists.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_pool::layout::CHUNK_PAGES;

use super::media::CheckedChunk;
use super::{CheckedMedia, Fix, FsFinding};
use crate::Ino;
use crate::format::inode::Inode;
use crate::format::layout::{BITMAP, DESCRIPTOR};
use crate::format::layout::{ChunkKind, is_in_use};
use crate::format::word::IndexWord;

/// A page that two inodes name; one of them gets a copy.
#[derive(Debug)]
pub(crate) struct ContestedPage {
    /// The inode that was looked at later.
    pub ino: Ino,
    pub other: Ino,
    pub page: u64,
    pub kind: ChunkKind,
    /// Its word.
    pub at: u64,
}

/// Pages that are named, and the inode that does.
#[derive(Debug, Default)]
pub(crate) struct PageClaims {
    pages: BTreeMap<u64, Ino>,
    /// How often each chunk was named as what it is not.
    pub doubted: BTreeMap<u64, usize>,
    /// Inodes with a page that another inode names too, other than as content.
    pub contested: BTreeSet<Ino>,
    /// Those whom the pages that they name fit (FJ1).
    pub fitting: BTreeSet<Ino>,
}

impl PageClaims {
    /// Inode `ino` names `page` of a chunk of kind `kind`, by the word at `at`. Whether that may be: where not, the
    /// page is not looked into.
    pub fn claim(
        &mut self,
        media: &CheckedMedia<'_>,
        page: u64,
        kind: ChunkKind,
        ino: Ino,
        at: u64,
    ) -> Result<(), FsFinding> {
        if media.chunk_of(page, kind).is_none() {
            self.doubt(page / CHUNK_PAGES);
            return Err(FsFinding::new(
                format!("inode {} names page {page}, which is not of the kind it needs", ino.0),
                at,
            ));
        }
        match self.pages.insert(page, ino) {
            Some(other) => {
                self.pages.insert(page, other);
                self.contested.extend([ino, other]);
                Err(FsFinding::new(format!("inode {} names page {page}, which inode {} names too", ino.0, other.0), at))
            }
            None => Ok(()),
        }
    }

    /// Chunk `number` was named as what it is not.
    pub fn doubt(&mut self, number: u64) {
        *self.doubted.entry(number).or_default() += 1;
    }

    /// Returns the inode that names `page`, among those looked at so far.
    pub fn owner(&self, page: u64) -> Option<Ino> {
        self.pages.get(&page).copied()
    }

    /// Returns the inode that has `page`, if `inode` names it too and gets a copy of it (FJ2).
    pub fn copied_from(&self, page: u64, kind: ChunkKind, inode: &Inode) -> Option<Ino> {
        let other = self.owner(page).filter(|other| kind != ChunkKind::Super && *other != inode.ino)?;
        let fits = |ino| self.fitting.contains(&ino);
        (fits(inode.ino) || !inode.is_directory() && !fits(other)).then_some(other)
    }

    /// Returns true if an inode names a page of chunk `number`.
    pub fn is_any_in(&self, number: u64) -> bool {
        self.pages.range(number * CHUNK_PAGES..(number + 1) * CHUNK_PAGES).next().is_some()
    }

    /// Gives the inode that was looked at later a copy of a page that two inodes name. Which of them wrote the page is
    /// unknown: one has foreign content now, and none has lost its own (FJ2).
    pub fn part(&self, media: &CheckedMedia<'_>, all: &[ContestedPage], wrong: &mut Vec<FsFinding>) {
        let mut content = self.free_pages(media, ChunkKind::Data);
        let mut index = self.free_pages(media, ChunkKind::Index);
        for ContestedPage { ino, other, page, kind, at } in all {
            let what = format!("inode {} names page {page}, which inode {} names too", ino.0, other.0);
            let (free, name): (_, fn(u64) -> IndexWord) = match kind {
                ChunkKind::Index => (index.next(), IndexWord::node),
                _ => (content.next(), IndexWord::page),
            };
            let fix = match (free, media.place(*page, *kind)) {
                // Once it is named it is marked in use, as any other.
                (Some((copy, to)), Some(from)) => {
                    let done = format!("inode {} has a copy of it: one of the two has what is not its own", ino.0);
                    Fix { copy: Some((from, to)), ..Fix::word(*at, name(copy).0, done) }
                }
                _ => Fix::word(*at, 0, format!("inode {} has nothing there now; what it had is lost", ino.0)),
            };
            wrong.push(FsFinding::new(what, *at).fixed_by(fix));
        }
    }

    /// Unnamed pages of chunks of kind `kind` that are marked free, with their places.
    fn free_pages<'a>(&'a self, media: &'a CheckedMedia<'_>, kind: ChunkKind) -> impl Iterator<Item = (u64, u64)> + 'a {
        let pages = (0..media.chunks.len() as u64 * CHUNK_PAGES).filter(|page| !self.pages.contains_key(page));
        pages.filter_map(move |page| {
            let chunk = media.chunk_of(page, kind)?;
            let index = page % CHUNK_PAGES;
            let is_free = chunk.bitmap[(index / 64) as usize] >> (index % 64) & 1 == 0;
            is_free.then_some((page, media.place(page, kind)?))
        })
    }

    /// Reports where the bitmaps differ. Unnamed pages are freed if no error can hide their names (`is_all`).
    pub fn against_bitmaps(&self, media: &CheckedMedia<'_>, is_all: bool, wrong: &mut Vec<FsFinding>) {
        for (number, chunk) in (0..).zip(&media.chunks) {
            let (first, at) = (number * CHUNK_PAGES, media.map.descriptor(number));
            let mut is_unnamed = |what, bytes| {
                let (found, fix) =
                    (FsFinding::new(format!("chunk {number} {what}"), at), Fix::word(at, 0, "it is free"));
                let fix = Fix { writes: vec![(at, vec![0; bytes])], ..fix };
                wrong.push(if is_all { found.fixed_by(fix) } else { found });
            };
            match chunk {
                // Opening is refused while a place is left that may belong to the chunk (FC3).
                None if !media.spare.is_empty() && is_in_use(media.memory, at) => {
                    is_unnamed("is none, and is said to be in use", DESCRIPTOR as usize);
                }
                Some(chunk) if chunk.kind == ChunkKind::Super && !self.pages.contains_key(&first) => {
                    is_unnamed("is a superpage that no file names", 8);
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
                format!("{leaked} pages of chunk {} are marked in use and nobody names them", first / CHUNK_PAGES);
            let found = FsFinding::new(what, at);
            wrong.push(if is_all { found.fixed_by(set(named, "they are free")) } else { found });
        }
    }
}
