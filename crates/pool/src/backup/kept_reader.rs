//! Reading a kept image chunk by chunk, by one thread or several.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ferrite_disk::Disk;

use super::frames::FrameSource;
use super::image_format::{ImageFrame, ImageHeader, bad};
use super::kept_format::{BLOCK, BlockBytes, BlockEntry, KeptHeader};
use super::kept_tree::{BlockTree, ReadBuffer, read_blocks, read_entries, verify_block};
use super::{lane_pages, superblock_pages};
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE, bitmap_at, is_meta, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Error, Result};

/// The newest save of a kept image. Takes a 256th of the pool's size in DRAM.
struct KeptContent<'disk> {
    disk: &'disk dyn Disk,
    header: ImageHeader,
    kept: KeptHeader,
    tree: BlockTree,
    bytes: u64,
}

/// A reader of the newest save of a kept image.
pub(super) struct KeptReader<'disk> {
    content: Arc<KeptContent<'disk>>,
    /// Pages with kinds and bitmaps of chunks.
    tables: HashMap<usize, Box<BlockBytes>>,
    buffer: ReadBuffer,
    next_chunk: u64,
}

/// The pages of a chunk in a kept image.
pub(super) struct KeptChunk {
    pub used: ChunkPages,
    /// The pages that the image holds; the other used pages are zeros.
    pub carried: ChunkPages,
}

impl<'disk> KeptReader<'disk> {
    /// Reads and verifies the header and the tree of the image on `disk`.
    ///
    /// # Errors
    /// [`Error::Limit`] if the image holds no save, [`Error::BadImage`] if it is damaged, [`Error::Medium`] if the disk
    /// fails.
    pub fn open(disk: &'disk dyn Disk) -> Result<Self> {
        let kept = KeptHeader::newest(disk)?;
        if kept.stamp.is_none() {
            return Err(Error::Limit("the kept image holds no save yet: there is nothing to restore".into()));
        }
        let tree = BlockTree::load(disk, &kept)?;
        let header = ImageHeader {
            image: kept.image,
            pool: kept.pool,
            size: kept.size,
            frames: kept.size / CHUNK,
            generation: kept.generation,
            stamp: kept.stamp,
        };
        let blocks = tree.levels.iter().flatten().filter(|entry| !entry.is_zeros()).count() as u64;
        let bytes = (blocks + super::kept_format::HEADER_BLOCKS) * PAGE;
        Ok(Self::of(Arc::new(KeptContent { disk, header, kept, tree, bytes })))
    }

    fn of(content: Arc<KeptContent<'disk>>) -> Self {
        Self { content, tables: HashMap::new(), buffer: ReadBuffer::default(), next_chunk: 0 }
    }

    /// Returns another reader of the same save, for another thread.
    pub fn another(&self) -> Self {
        Self::of(Arc::clone(&self.content))
    }

    /// Returns the byte or bytes of the pool at `at`, which lie in a table of chunks.
    fn table(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        let page = (at / PAGE) as usize;
        if !self.tables.contains_key(&page) {
            let KeptContent { disk, kept, tree, .. } = &*self.content;
            let (mut bytes, entry) = (Box::new([0; BLOCK]), tree.levels[0][page]);
            if !entry.is_zeros() {
                read_blocks(*disk, entry.block.get(), &mut *bytes)?;
                verify_block(kept.key(), entry, &bytes)?;
            }
            self.tables.insert(page, bytes);
        }
        let from = (at % PAGE) as usize;
        into.copy_from_slice(&self.tables[&page][from..from + into.len()]);
        Ok(())
    }

    /// Returns the pages of `chunk` in use, as [`super::used_chunks`] does.
    fn used(&mut self, chunk: u64) -> Result<ChunkPages> {
        let mut kind = [0];
        self.table(kind_at(chunk), &mut kind)?;
        let kind = ChunkUse::from_byte(kind[0]).filter(|kind| (*kind == ChunkUse::Meta) == is_meta(chunk));
        Ok(match kind.ok_or_else(|| bad("the kind of a chunk", 0))? {
            ChunkUse::Free => ChunkPages::default(),
            ChunkUse::Normal => {
                let mut bitmap = [0; (CHUNK_PAGES / 8) as usize];
                self.table(bitmap_at(chunk), &mut bitmap)?;
                ChunkPages::of_bytes(bitmap)
            }
            ChunkUse::Super => ChunkPages::ALL,
            ChunkUse::Meta => ChunkPages::ALL.without(superblock_pages(chunk)),
        })
    }

    /// Returns the pages of `chunk`, or `None` if none is in use. Reads the tables alone.
    ///
    /// # Errors
    /// [`Error::BadImage`] for pages that this program cannot have saved.
    pub fn chunk(&mut self, chunk: u64) -> Result<Option<KeptChunk>> {
        let used = self.used(chunk)?;
        let mut carried = ChunkPages::default();
        let pages = (0..).zip(self.entries(chunk)).filter(|(_, entry)| !entry.is_zeros());
        pages.for_each(|(page, _)| carried.insert(page..page + 1));
        if !carried.without(used).is_empty() || carried.without(lane_pages(chunk)) != carried {
            return Err(bad("a chunk that this program cannot have saved", 0));
        }
        Ok((!used.is_empty()).then_some(KeptChunk { used, carried }))
    }

    /// Reads and verifies the pages that the image holds of `chunk`, and passes each to `visit` with its number in the
    /// chunk.
    ///
    /// # Errors
    /// [`Error::BadImage`] if a page is damaged, [`Error::Medium`] if the disk fails. The pages before it were visited.
    pub fn pages(&mut self, chunk: u64, mut visit: impl FnMut(u64, &BlockBytes)) -> Result<()> {
        let Self { content, buffer, .. } = self;
        let entries = &content.tree.levels[0][entries_of(chunk)];
        read_entries(content.disk, content.kept.key(), entries, buffer, |page, bytes| visit(page as u64, bytes))
    }

    fn entries(&self, chunk: u64) -> &[BlockEntry] {
        &self.content.tree.levels[0][entries_of(chunk)]
    }

    fn frame(&mut self, chunk: u64) -> Result<Option<ImageFrame>> {
        let Some(KeptChunk { used, carried }) = self.chunk(chunk)? else { return Ok(None) };
        let places: Vec<u64> = carried.runs().flatten().collect();
        let mut content = vec![0; places.len() * BLOCK];
        let to = content.as_chunks_mut::<BLOCK>().0;
        self.pages(chunk, |page, bytes| to[places.partition_point(|place| *place < page)] = *bytes)?;
        Ok(Some(ImageFrame { chunk, used, carried, content }))
    }
}

/// Returns the indices of the entries of `chunk`.
fn entries_of(chunk: u64) -> Range<usize> {
    let first = (chunk * CHUNK_PAGES) as usize;
    first..first + CHUNK_PAGES as usize
}

impl FrameSource for KeptReader<'_> {
    fn header(&self) -> &ImageHeader {
        &self.content.header
    }

    fn next(&mut self) -> Result<Option<ImageFrame>> {
        while self.next_chunk < self.content.header.frames {
            let chunk = self.next_chunk;
            self.next_chunk += 1;
            if let Some(frame) = self.frame(chunk)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn bytes(&self) -> u64 {
        self.content.bytes
    }
}
