//! The room of a thin disk. Space is allocated at the first write of a block, and a part of it is kept for overwrites.
//!
//! - RM1. A chunk's worth of free blocks is used by overwrites only, and each overwrite frees one block. A write to an
//!   unmapped block must first be promised one of the other free blocks. So an overwrite finds a free block even if the
//!   pool is full: a file system on the disk can change all its data once, and must expect an error for new data.

use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_memory::Result;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES};
use ferrite_pool::{Role, SpaceNeed, Tag, TagChange, Zone};

use crate::disk::{BlockDisk, medium_error};

/// The number of blocks kept for overwrites: more than a few writers take at once.
pub(crate) const KEPT: u64 = CHUNK_PAGES;

/// The number of blocks that can be promised. It is negative if the disk has fewer blocks than it should keep.
pub(crate) struct ThinRoom(AtomicI64);

impl ThinRoom {
    /// Returns the room of a disk with `free` free blocks.
    pub fn of(free: u64) -> Self {
        Self(AtomicI64::new(free as i64 - KEPT as i64))
    }

    /// Returns true if `blocks` could be promised now.
    pub fn has(&self, blocks: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= blocks as i64
    }

    /// Promises `blocks`. Returns false if there are fewer.
    pub fn promise(&self, blocks: u64) -> bool {
        let rest = |room: i64| (room >= blocks as i64).then_some(room - blocks as i64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }

    /// Adds `blocks`, which are new or no longer named.
    pub fn add(&self, blocks: u64) {
        self.0.fetch_add(blocks as i64, Ordering::Relaxed);
    }
}

impl BlockDisk {
    /// Promises `blocks` to a write of unmapped blocks. Returns true for a disk that is not thin.
    #[inline]
    pub(crate) fn promise(&self, blocks: u64) -> bool {
        self.room.as_ref().is_none_or(|room| blocks == 0 || room.promise(blocks))
    }

    /// Takes back the promise of `blocks`, which are no longer named or were not named after all.
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

    /// Adds a chunk to a thin disk that cannot promise `needed` blocks.
    pub(crate) fn grow_thin(&self, needed: u64) -> Result<()> {
        let add_chunk = || {
            let mut tag = self.tag_to_change();
            if self.room.as_ref().is_none_or(|room| room.has(needed)) {
                return Ok(());
            }
            self.grow_tables(self.blocks(), self.data_blocks.load(Ordering::Acquire) / CHUNK_PAGES + 1)?;
            let need = SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: CHUNK };
            let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[need], keep: &tag.extents };
            let grown = self.pool.change_tag(&tag, &change, |_| Ok(()))?;
            self.adopt_grown(&grown);
            *tag = grown;
            Ok(())
        };
        self.pool.with_spare(add_chunk).map_err(medium_error)
    }
}
