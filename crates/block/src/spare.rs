//! Giving space back: a thin disk returns its last chunks to the pool when other tags lack space.
//!
//! - GV1. A chunk is given back after all of its blocks were found free and withdrawn from the free blocks. Then no
//!   word on the medium names one, no reader copies or borrows one, and no writer gets one. The content of the last
//!   chunks is first written to other blocks, as an overwrite would write it (B1 to B4). In place the content stays
//!   (B6), and so do the chunks.

use std::ops::Range;
use std::sync::atomic::Ordering;

use ferrite_memory::{Result, planted};
use ferrite_pool::layout::CHUNK_PAGES;
use ferrite_pool::{Extent, Role, TagChange};

use crate::disk::{BlockDisk, medium_error};
use crate::map::MapEntry;
use crate::overwrite::BlockStore;
use crate::shape::BLOCK;
use crate::word_change::WordChange;

/// The largest number of chunks given back at once, because another tag waits.
const CHUNKS_AT_ONCE: u64 = 16;

/// The number of times that the blocks are searched again, because writers change and free blocks at the same time.
const ROUNDS: usize = 3;

impl BlockDisk {
    /// Gives chunks back to the pool. Returns false if the disk needs all of them. The change is durable on return.
    pub(crate) fn release_chunks(&self) -> Result<bool> {
        let Some(room) = self.room.as_ref().filter(|_| !self.options.read_only) else { return Ok(false) };
        let mut tag = self.tag_to_change();
        let chunks = self.data_blocks.load(Ordering::Acquire) / CHUNK_PAGES;
        let most = CHUNKS_AT_ONCE.min(chunks.saturating_sub(1));
        let Some(count) = (1..=most).rev().find(|count| room.promise(count * CHUNK_PAGES)) else { return Ok(false) };
        let kept = (chunks - count) * CHUNK_PAGES;
        let blocks = kept as u32..(chunks * CHUNK_PAGES) as u32;
        let found = self.free.withdraw(&blocks);
        let mut last = LastChunks { disk: self, blocks, found };
        let given = last.vacate().and_then(|is_clear| {
            if !is_clear {
                return Ok(false);
            }
            let keep = first_pages(&tag.extents, kept);
            let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[], keep: &keep };
            let smaller = self.pool.change_tag(&tag, &change, |_| Ok(())).map_err(medium_error)?;
            self.adopt(&smaller);
            *tag = smaller;
            Ok(true)
        });
        if !matches!(given, Ok(true)) {
            self.free.put_back(&last.found);
            room.add(count * CHUNK_PAGES);
        }
        given
    }
}

/// The last chunks of a disk, which the disk frees.
struct LastChunks<'disk> {
    disk: &'disk BlockDisk,
    /// Their blocks of the data stream.
    blocks: Range<u32>,
    /// The blocks that were found free and withdrawn.
    found: Vec<u32>,
}

impl LastChunks<'_> {
    /// Moves the content of the chunks elsewhere and withdraws their blocks. Returns true if all were withdrawn.
    fn vacate(&mut self) -> Result<bool> {
        if planted!("block: chunks in use are given back") {
            return Ok(true);
        }
        for _ in 0..ROUNDS {
            if self.found.len() == self.blocks.len() {
                return Ok(true);
            }
            if !self.disk.options.in_place {
                for index in 0..self.disk.blocks() {
                    if is_in(&self.blocks, self.disk.map.get(index)) {
                        self.move_block(index)?;
                    }
                }
            }
            self.disk.flush_map()?;
            self.found.extend(self.disk.free.withdraw(&self.blocks));
        }
        Ok(self.found.len() == self.blocks.len())
    }

    /// Moves block `index` of the disk to a free block outside of the chunks, if it still lies in one.
    fn move_block(&mut self, index: u64) -> Result<()> {
        let mut to = [0];
        loop {
            self.disk.take_blocks(&mut to)?;
            if !self.blocks.contains(&to[0]) {
                break;
            }
            self.found.push(to[0]);
        }
        let (mut old, new, mut checksums) = ([MapEntry::ZERO], [MapEntry::of(to[0])], [0]);
        let _pass = self.disk.pass_and_lock(index, &mut old);
        if !is_in(&self.blocks, old[0]) {
            self.disk.unlock(index, &old);
            self.disk.free.put_back(&to);
            return Ok(());
        }
        let stored = self.disk.old_content(index, old[0]).and_then(|content| {
            let store = BlockStore { place: self.disk.place(to[0].into()), at: index * BLOCK, from: &content };
            store.write(self.disk, &mut checksums)
        });
        let change = WordChange { first: index, old: &old, new: &new, checksums: &checksums };
        match stored {
            Ok(()) => change.commit(self.disk),
            Err(error) => {
                change.abandon(self.disk);
                Err(error)
            }
        }
    }
}

fn is_in(blocks: &Range<u32>, entry: MapEntry) -> bool {
    entry.block().is_some_and(|block| blocks.contains(&(block as u32)))
}

/// Returns `extents` with at most the first `pages` of the data stream.
fn first_pages(extents: &[Extent], pages: u64) -> Vec<Extent> {
    let mut left = pages;
    let mut keep = Vec::new();
    for extent in extents {
        let pages = if extent.role == Role::DATA { left.min(extent.pages.into()) } else { extent.pages.into() };
        if extent.role == Role::DATA {
            left -= pages;
        }
        if pages > 0 {
            keep.push(Extent { pages: pages as u32, ..*extent });
        }
    }
    keep
}
