//! What a thin disk may still name. Space is taken from the pool as it is written, and some of it is for overwrites alone.
//!
//! - RM1. As many of its blocks as a chunk has are named by nothing but overwrites, each of which gives one back: who writes
//!   where nothing is yet must first have been promised one of the others. So an overwrite finds a free block though the
//!   pool is full. Whatever is on the disk can change all that it has written once, and must expect to be refused the rest.

use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_memory::Result;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES};
use ferrite_pool::{Need, Role, Tag, TagChange, Zone};

use crate::disk::{BlockDisk, medium_error};
use crate::write::BATCH;

/// Blocks for overwrites: more than a few writers take at once.
pub(crate) const KEPT: u64 = CHUNK_PAGES;

const _: () = assert!(KEPT >= 2 * BATCH as u64, "loans leave enough for a batch");

/// Blocks that may be promised; fewer than none where a disk has less than is to be kept.
pub(crate) struct ThinRoom(AtomicI64);

impl ThinRoom {
    /// That of a disk with so many free blocks.
    pub fn of(free: u64) -> Self {
        Self(AtomicI64::new(free as i64 - KEPT as i64))
    }

    /// Whether so many could be promised now.
    pub fn has(&self, blocks: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= blocks as i64
    }

    /// Promises so many, if there are as many.
    pub fn promise(&self, blocks: u64) -> bool {
        let rest = |room: i64| (room >= blocks as i64).then_some(room - blocks as i64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }

    /// So many more can be promised: they were added, or are named no longer.
    pub fn add(&self, blocks: u64) {
        self.0.fetch_add(blocks as i64, Ordering::Relaxed);
    }
}

impl BlockDisk {
    /// Promises so many blocks to who writes where nothing is yet: always, of a disk that is not thin.
    #[inline]
    pub(crate) fn promise(&self, blocks: u64) -> bool {
        self.room.as_ref().is_none_or(|room| blocks == 0 || room.promise(blocks))
    }

    /// So many blocks are named no longer, or were not after all.
    #[inline]
    pub(crate) fn release(&self, blocks: u64) {
        if let Some(room) = &self.room {
            room.add(blocks);
        }
    }

    /// Takes over the space of `grown`, which has more than before.
    pub(crate) fn adopt_grown(&self, grown: &Tag) {
        let had = self.adopt(grown);
        let has = self.data_blocks.load(Ordering::Acquire) as u32;
        self.free.add(had..has);
        if let Some(room) = &self.room {
            room.add((has - had).into());
        }
    }

    /// Adds a chunk to a thin disk without room for `needed` new blocks.
    pub(crate) fn grow_thin(&self, needed: u64) -> Result<()> {
        self.pool.with_spare(|| self.add_chunk(needed)).map_err(medium_error)
    }

    fn add_chunk(&self, needed: u64) -> ferrite_pool::Result<()> {
        let mut tag = self.tag_to_change();
        if self.room.as_ref().is_none_or(|room| room.has(needed)) {
            return Ok(());
        }
        self.grow_tables(self.blocks(), self.data_blocks.load(Ordering::Acquire) / CHUNK_PAGES + 1)?;
        let need = Need { role: Role::DATA, zone: Zone::Super, bytes: CHUNK };
        let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[need], keep: &tag.extents };
        let grown = self.pool.change_tag(&tag, &change, |_| Ok(()))?;
        self.adopt_grown(&grown);
        *tag = grown;
        Ok(())
    }
}
