//! Reading a kept image as the frames of a backup image.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use ferrite_disk::Disk;

use super::frames::FrameSource;
use super::image_format::{ImageFrame, ImageHeader, bad};
use super::kept_format::{BLOCK, BlockBytes, BlockEntry, KeptHeader};
use super::kept_tree::{BlockTree, read_blocks, read_entries, verify_block};
use super::{lane_pages, superblock_pages};
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE, bitmap_at, is_meta, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Error, Result};

/// The newest save of a kept image, chunk by chunk. Takes a 256th of the pool's size in DRAM.
pub(super) struct KeptReader<'disk> {
    disk: &'disk dyn Disk,
    header: ImageHeader,
    kept: KeptHeader,
    tree: BlockTree,
    /// Pages with kinds and bitmaps of chunks.
    tables: HashMap<usize, Box<BlockBytes>>,
    next_chunk: u64,
    bytes: u64,
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
        Ok(Self { disk, header, kept, tree, tables: HashMap::new(), next_chunk: 0, bytes })
    }

    /// Returns the byte or bytes of the pool at `at`, which lie in a table of chunks.
    fn table(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        let page = (at / PAGE) as usize;
        if !self.tables.contains_key(&page) {
            let (mut bytes, entry) = (Box::new([0; BLOCK]), self.tree.levels[0][page]);
            if !entry.is_zeros() {
                read_blocks(self.disk, entry.block.get(), &mut *bytes)?;
                verify_block(self.kept.key(), entry, &bytes)?;
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

    /// Reads and verifies the pages of `chunk` with these entries.
    fn frame(&mut self, chunk: u64) -> Result<Option<ImageFrame>> {
        let used = self.used(chunk)?;
        let first = (chunk * CHUNK_PAGES) as usize;
        let entries = &self.tree.levels[0][first..first + CHUNK_PAGES as usize];
        let mut carried = ChunkPages::default();
        let pages = (0..).zip(entries).filter(|(_, entry)| !entry.is_zeros());
        pages.for_each(|(page, _)| carried.insert(page..page + 1));
        if !carried.without(used).is_empty() || carried.without(lane_pages(chunk)) != carried {
            return Err(bad("a chunk that this program cannot have saved", 0));
        }
        if used.is_empty() {
            return Ok(None);
        }
        let carried_entries: Vec<BlockEntry> = entries.iter().copied().filter(|entry| !entry.is_zeros()).collect();
        let mut content = vec![0; carried_entries.len() * BLOCK];
        let pages = content.as_chunks_mut::<BLOCK>().0;
        read_entries(self.disk, self.kept.key(), &carried_entries, |index, bytes| pages[index] = *bytes)?;
        Ok(Some(ImageFrame { chunk, used, carried, content }))
    }
}

impl FrameSource for KeptReader<'_> {
    fn header(&self) -> &ImageHeader {
        &self.header
    }

    fn next(&mut self) -> Result<Option<ImageFrame>> {
        while self.next_chunk < self.header.frames {
            let chunk = self.next_chunk;
            self.next_chunk += 1;
            if let Some(frame) = self.frame(chunk)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Frames that wait in DRAM for their restore.
const AHEAD: usize = 16;

/// The frames of a kept image, which a thread reads ahead.
struct FramesAhead {
    header: ImageHeader,
    bytes: u64,
    frames: Receiver<Result<Option<ImageFrame>>>,
}

impl FrameSource for FramesAhead {
    fn header(&self) -> &ImageHeader {
        &self.header
    }

    fn next(&mut self) -> Result<Option<ImageFrame>> {
        self.frames.recv().expect("the thread sends the end before it ends")
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Calls `restore` with the frames of `reader`, which a thread reads and verifies ahead.
pub(super) fn read_ahead<T>(
    mut reader: KeptReader<'_>,
    restore: impl FnOnce(&mut dyn FrameSource) -> Result<T>,
) -> Result<T> {
    let (sender, frames) = mpsc::sync_channel(AHEAD);
    let mut ahead = FramesAhead { header: reader.header, bytes: reader.bytes, frames };
    thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                let frame = reader.next();
                let is_last = !matches!(frame, Ok(Some(_)));
                // The restore has failed if nothing receives any more.
                if sender.send(frame).is_err() || is_last {
                    break;
                }
            }
        });
        let restored = restore(&mut ahead);
        drop(ahead);
        restored
    })
}
