//! The tables of a file system as they stand on the medium.

use std::collections::BTreeSet;

use ferrite_memory::{Memory, Span};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};
use ferrite_pool::{Pool, Role, Stream, Tag};

use super::FsFinding;
use super::slots::CheckedSlots;
use crate::Ino;
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::layout::{BITMAP, CHUNK_INODES, INODE, MapPages, is_in_use};
use crate::format::shape::FsShape;
use crate::view::index_reader::IndexReader;

/// A chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedChunk {
    /// Where it lies in the pool.
    pub base: u64,
    pub kind: ChunkKind,
    /// Pages that are marked in use.
    pub bitmap: [u64; 8],
}

/// The tables, read.
pub(crate) struct CheckedMedia<'a> {
    pub memory: &'a dyn Memory,
    pub map: MapPages,
    pub shape: FsShape,
    /// Where each chunk lies in the pool, by number.
    pub bases: Vec<Option<u64>>,
    /// The same chunks, except chunks of an unknown kind.
    pub chunks: Vec<Option<CheckedChunk>>,
    /// Chunks in use without a place, and those whose word says that they lie where the tag has nothing or where another
    /// one does.
    pub unplaced: Vec<u64>,
    /// Where no chunk lies of what the tag has.
    pub spare: BTreeSet<u64>,
    /// The slots of its tier, if it has one.
    pub slots: Option<CheckedSlots>,
}

impl<'a> CheckedMedia<'a> {
    /// Reads the tables of the file system of `tag`.
    pub fn open(pool: &'a Pool, tag: &Tag) -> Result<Self, FsFinding> {
        let shape = FsShape::read(tag).map_err(|error| FsFinding::new(error.to_string(), 0))?;
        let memory = pool.memory();
        let map = MapPages::new(Stream::new(&tag.extents, Role::MAP).runs(Span::new(0, u64::MAX)));
        let data = tag.extents.iter().filter(|extent| extent.role == Role::DATA);
        let spare = data
            .flat_map(|extent| (extent.page..extent.end()).step_by(CHUNK_PAGES as usize))
            .map(|page| page * PAGE)
            .collect();
        let (bases, chunks, unplaced) = (Vec::new(), Vec::new(), Vec::new());
        let slots = CheckedSlots::open(memory, tag, &shape)?;
        let mut media = Self { memory, map, shape, bases, chunks, unplaced, spare, slots };
        for number in 0..media.map.chunks() {
            let named = media.places_said(number);
            let base = named.iter().find(|place| media.spare.remove(place)).copied();
            let is_used = || number == 0 || is_in_use(memory, media.map.descriptor(number));
            if base.is_none() && (!named.is_empty() || is_used()) {
                media.unplaced.push(number);
            }
            media.bases.push(base);
            media.chunks.push(base.zip(media.kind_said(number)).map(|(base, kind)| media.chunk(number, base, kind)));
        }
        if media.spare.is_empty() {
            // Opening is refused only while a place is left that may belong to such a chunk (FC3).
            let unplaced = std::mem::take(&mut media.unplaced).into_iter();
            media.unplaced = unplaced.filter(|number| *number == 0 || !media.places_said(*number).is_empty()).collect();
        }
        Ok(media)
    }

    /// Where the word of chunk `number` says that it lies.
    pub fn places_said(&self, number: u64) -> Vec<u64> {
        let word = self.memory.load_word(self.map.chunk_word(number));
        let named = [word & u64::from(u32::MAX), word >> 32];
        named.into_iter().filter(|chunk| *chunk != 0).map(|chunk| (chunk - 1) * CHUNK).collect()
    }

    /// Of what kind chunk `number` says that it is.
    pub fn kind_said(&self, number: u64) -> Option<ChunkKind> {
        ChunkKind::from_word(self.memory.load_word(self.map.descriptor(number)))
    }

    /// Chunk `number`, which lies at `base` and is of kind `kind`.
    fn chunk(&self, number: u64, base: u64, kind: ChunkKind) -> CheckedChunk {
        let at = self.map.descriptor(number);
        let bitmap = std::array::from_fn(|word| self.memory.load_word(at + BITMAP + word as u64 * 8));
        CheckedChunk { base, kind, bitmap }
    }

    /// The chunk that `page` lies in, if it is of kind `kind`.
    pub fn chunk_of(&self, page: u64, kind: ChunkKind) -> Option<&CheckedChunk> {
        let chunk = self.chunks.get((page / CHUNK_PAGES) as usize)?.as_ref();
        chunk.filter(|chunk| chunk.kind == kind)
    }

    /// Where `page`, of a chunk of kind `kind`, lies in the pool.
    pub fn place(&self, page: u64, kind: ChunkKind) -> Option<u64> {
        Some(self.chunk_of(page, kind)?.base + page % CHUNK_PAGES * PAGE)
    }

    /// Returns the inode, in use or free; `None` if no inode has this number.
    pub fn inode(&self, ino: Ino) -> Option<Inode> {
        let chunk = self.chunks.get((ino.0 / CHUNK_INODES) as usize)?.as_ref()?;
        let at = chunk.base + ino.0 % CHUNK_INODES * INODE;
        let place = |page: u64| {
            let chunk = self.chunks.get((page / CHUNK_PAGES) as usize)?.as_ref()?;
            Some(chunk.base + page % CHUNK_PAGES * PAGE)
        };
        let holds = |inode: &Inode, checksum| {
            IndexReader { memory: self.memory, place, at }.holds(inode.head.height.into(), checksum)
        };
        (chunk.kind == ChunkKind::Inodes && ino.0 != 0).then(|| Inode::load(self.memory, ino, at, holds))
    }

    fn inode_in_use(&self, ino: Ino) -> Option<Inode> {
        let chunk = self.chunks[(ino.0 / CHUNK_INODES) as usize].as_ref()?;
        let mode = self.memory.load_word(chunk.base + ino.0 % CHUNK_INODES * INODE) as u16;
        if mode == 0 { None } else { self.inode(ino) }
    }

    /// Every inode that is in use.
    pub fn inodes(&self) -> impl Iterator<Item = Inode> + '_ {
        let chunks = self.chunks.iter().enumerate();
        let of_inodes = chunks.filter(|(_, chunk)| chunk.is_some_and(|chunk| chunk.kind == ChunkKind::Inodes));
        let numbers =
            of_inodes.flat_map(|(chunk, _)| (0..CHUNK_INODES).map(move |slot| chunk as u64 * CHUNK_INODES + slot));
        numbers.filter_map(|number| self.inode_in_use(Ino(number)))
    }
}
