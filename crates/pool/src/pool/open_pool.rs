//! Opening and recovering a pool.

use std::sync::Arc;

use ferrite_memory::Memory;
use parking_lot::Mutex;

use super::Pool;
use crate::checked_word::salt;
use crate::freeze::frozen_services::Freezers;
use crate::grant::grants::{GrantSource, Grants};
use crate::holding::lease_words::LeaseList;
use crate::lane::LaneSet;
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::page_allocator::PageAllocator;
use crate::poison::Poison;
use crate::redo::{Redo, ReplayCount};
use crate::superblock::{PoolState, Superblock};
use crate::tag_table::TagTable;
use crate::{Error, Result, member};

/// The result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// True if the pool had been closed in order.
    pub clean: bool,
    /// True if this boot of the machine opened the pool last.
    pub same_boot: bool,
    /// The transactions that were replayed.
    pub replay: ReplayCount,
}

impl Pool {
    /// Opens the pool in `memory` and recovers it. A pool that cannot be opened is not written.
    ///
    /// # Errors
    /// [`Error::NotAPool`], [`Error::Version`], [`Error::Truncated`], [`Error::Corrupt`] and [`Error::Restoring`] if it
    /// cannot be opened, [`Error::Medium`] if the memory fails.
    pub fn open(memory: Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<(Self, Recovery)> {
        let (pool, recovery, _) = Self::open_as(memory, boot_id, false)?;
        Ok((pool, recovery))
    }

    /// Opens the pool although it may be damaged, to check or repair it. Damaged tags are missing, and their space
    /// counts as in use. Returns an error for each transaction that its lanes lost (lane L7).
    pub(crate) fn open_damaged(memory: Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<(Self, Recovery, Vec<Error>)> {
        Self::open_as(memory, boot_id, true)
    }

    fn open_as(memory: Arc<dyn Memory>, boot_id: [u8; 16], damaged: bool) -> Result<(Self, Recovery, Vec<Error>)> {
        let mut superblock = inherit(&*memory)?;
        superblock.ensure_bounded()?;
        let salt = salt(&superblock.uuid);
        let redo = Redo::read(&*memory, salt)?;
        let mut lost = redo.lost();
        if let Some(first) = lost.pop_if(|_| !damaged) {
            return Err(first);
        }
        let (space, mut table, mut damage, grants) = {
            let recovered = redo.preview(&*memory)?;
            let chunks = superblock.size / CHUNK;
            let (table, mut damage) = TagTable::load(&recovered, chunks * CHUNK_PAGES);
            let (space, more) = PageAllocator::load(&recovered, chunks);
            damage.extend(more);
            let (memory, pages, serial) = (&recovered, chunks * CHUNK_PAGES, superblock.generation << 32);
            let (grants, more) = Grants::load(&GrantSource { memory, space: &space, pages, boot_id, serial });
            damage.extend(more);
            damage.extend(member::damage(memory));
            (space, table, damage, grants)
        };
        if let Some(first) = damage.pop_if(|_| !damaged) {
            return Err(first.error);
        }
        let of_space = table.check_space(&space);
        // A damaged table may name space that counts as free.
        let is_sound = lost.is_empty() && damage.is_empty() && of_space.is_ok();
        if !damaged {
            of_space?;
        }
        let lanes = LaneSet::recover(&*memory, salt, &redo)?;
        table.generation = table.generation.max(superblock.generation << 32);
        let recovery = Recovery {
            clean: superblock.state == PoolState::Clean,
            same_boot: superblock.boot_id == boot_id,
            replay: redo.replay(),
        };
        superblock.state = PoolState::Open;
        superblock.boot_id = boot_id;
        superblock.advance(&*memory)?;
        let (superblock, table) = (Mutex::new(superblock), Mutex::new(table));
        let pool = Self {
            memory,
            superblock,
            space,
            lanes,
            table,
            poison: Poison::default(),
            freezers: Freezers::default(),
            grants,
            holdings: LeaseList::default(),
        };
        pool.grants.reap(&pool)?;
        if !recovery.clean && is_sound {
            pool.return_all_free_chunks()?;
        }
        Ok((pool, recovery, lost))
    }
}

/// Returns the superblock of the pool in `memory`. A process that was killed in this boot may have left words that are
/// visible and not durable; they are made durable, because space that they freed may be used again.
fn inherit(memory: &dyn Memory) -> Result<Superblock> {
    let superblock = Superblock::read(memory)?;
    match superblock.state {
        PoolState::Restoring => return Err(Error::Restoring),
        PoolState::Open => memory.inherit()?,
        PoolState::Clean => {}
    }
    Ok(superblock)
}
