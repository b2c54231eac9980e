//! The pool: formatted memory with named tags in it.

pub(crate) mod open_pool;
pub(crate) mod tag_change;

use std::fmt;
use std::sync::Arc;

use ferrite_memory::{Memory, Survival};
use parking_lot::{Mutex, MutexGuard};

use crate::extent::{Extent, page_at};
use crate::freeze::frozen_services::Freezers;
use crate::grant::grants::Grants;
use crate::holding::lease_words::LeaseList;
use crate::lane::LaneSet;
use crate::page_allocator::{PageAllocator, SpaceNeed, SpaceUsage};
use crate::poison::Poison;
use crate::superblock::{PoolState, Superblock, VERSION};
use crate::tag::{Tag, TagKind};
use crate::tag_table::TagTable;
use crate::{Error, Result};

/// An open pool. Dropping it without [`Pool::close`] is like a crash, which costs only a replay.
///
/// An operation that changes the pool returns [`Error::Medium`] if a persist fails. Whether its change took effect is
/// known when the pool is opened again; until then every change is refused with [`Error::Poisoned`]. A change that is
/// larger than a record ([`crate::PAYLOAD_BYTES_MAX`]) is refused with [`Error::Limit`].
pub struct Pool {
    memory: Arc<dyn Memory>,
    superblock: Mutex<Superblock>,
    space: PageAllocator,
    lanes: LaneSet,
    table: Mutex<TagTable>,
    poison: Poison,
    freezers: Freezers,
    grants: Grants,
    /// The tags that this process holds, and the words that other processes see.
    pub(crate) holdings: LeaseList,
}

/// A tag to create.
#[derive(Clone, Debug)]
pub struct NewTag<'name> {
    /// The name, which no other tag may have.
    pub name: &'name str,
    /// The kind of the tag.
    pub kind: TagKind,
    /// The size in bytes that users of the tag see.
    pub size: u64,
    /// The attributes of the tag's service.
    pub attributes: [u8; 64],
    /// The space of the tag.
    pub needs: &'name [SpaceNeed],
}

/// A change of a tag, which happens as a whole or not at all.
#[derive(Clone, Debug)]
pub struct TagChange<'a> {
    /// The new size in bytes.
    pub size: u64,
    /// The new attributes.
    pub attributes: [u8; 64],
    /// Space to append to the tag's.
    pub add: &'a [SpaceNeed],
    /// The extents to keep, whole or in part, in their new order. The rest becomes free, and its content is lost.
    pub keep: &'a [Extent],
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("superblock", &*self.superblock.lock()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Closes the pool: everything is durable and nothing has to be recovered. The caller closes the services on it
    /// first.
    ///
    /// # Errors
    /// As [`Pool`] says; the pool is then as after a crash.
    pub fn close(self) -> Result<()> {
        self.check_poison()?;
        self.lanes.retire(&*self.memory)?;
        self.memory.barrier()?;
        let mut superblock = self.superblock.lock();
        superblock.state = PoolState::Clean;
        superblock.advance(&*self.memory)
    }

    /// Returns the pool's memory.
    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// Returns a handle of the pool's memory.
    pub fn memory_handle(&self) -> Arc<dyn Memory> {
        Arc::clone(&self.memory)
    }

    /// Returns the failures that the pool survives, from the medium's report and the user's trust in that medium.
    pub fn survival(&self) -> Survival {
        let found = self.memory.survival();
        let is_trusted = self.superblock.lock().trusted == found.fingerprint();
        if is_trusted { found.trusted() } else { found }
    }

    /// Records whether the pool's user trusts the medium to survive kernel crashes and power loss. The trust ends if
    /// the pool is moved to a medium of another kind.
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn trust_medium(&self, trusted: bool) -> Result<()> {
        self.check_poison()?;
        let mut superblock = self.superblock.lock();
        let fingerprint = if trusted { self.memory.survival().fingerprint() } else { 0 };
        if superblock.trusted == fingerprint {
            return Ok(());
        }
        superblock.trusted = fingerprint;
        superblock.advance(&*self.memory).inspect_err(|error| self.poison(error))
    }

    /// Sets the pool's format version to the newest, before data of that version is written. Durable on return.
    pub(crate) fn raise_version(&self) -> Result<()> {
        self.check_poison()?;
        let mut superblock = self.superblock.lock();
        if superblock.version == VERSION {
            return Ok(());
        }
        superblock.version = VERSION;
        superblock.advance(&*self.memory).inspect_err(|error| self.poison(error))
    }

    /// Returns the superblock as last written.
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// Returns the use of the pool's space.
    pub fn usage(&self) -> SpaceUsage {
        self.space.usage()
    }

    /// Returns the pool's allocator.
    pub fn space(&self) -> &PageAllocator {
        &self.space
    }

    pub(crate) fn lanes(&self) -> &LaneSet {
        &self.lanes
    }

    /// Retires the records of all committed transactions, so that no crash replays them. Afterwards a service may store
    /// directly to space that its transactions wrote (lane L6).
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn retire(&self) -> Result<()> {
        self.check_poison()?;
        self.lanes.retire(&*self.memory).inspect_err(|error| self.poison(error))
    }

    /// Returns the pool's grants.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the services that are frozen with the pool.
    pub(crate) fn freezers(&self) -> &Freezers {
        &self.freezers
    }

    /// Refuses if an earlier persist failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if one did.
    #[inline]
    pub fn check_poison(&self) -> Result<()> {
        self.poison.check()
    }

    /// Records a failed persist: every later change is refused until the pool is opened again.
    pub fn poison(&self, why: &dyn fmt::Display) {
        self.poison.note(why);
    }

    /// Returns every tag, by name.
    pub fn tags(&self) -> Vec<Arc<Tag>> {
        self.table.lock().tags.values().map(|entry| Arc::clone(&entry.tag)).collect()
    }

    /// Returns the tag called `name`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no tag has the name.
    pub fn tag(&self, name: &str) -> Result<Arc<Tag>> {
        let table = self.table.lock();
        table.tags.get(name).map(|entry| Arc::clone(&entry.tag)).ok_or_else(|| Error::NotFound(name.into()))
    }

    /// Returns the current state of `tag`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the name now belongs to another tag, or to none.
    pub fn tag_now(&self, tag: &Tag) -> Result<Arc<Tag>> {
        self.table.lock().current(tag).map(|entry| entry.tag)
    }

    /// Returns every allocated extent that belongs to no tag: chained tag pages, overflow pages, and the pages of
    /// grants that are in use or held.
    pub fn own_extents(&self) -> Vec<Extent> {
        let table = self.table.lock();
        let chained = table.pages.iter().skip(1).map(|page| page_at(*page));
        let of_tags = table.tags.values().flat_map(|entry| entry.overflow.clone());
        chained.chain(of_tags).chain(self.grants.own_extents()).collect()
    }

    /// Locks the tag table. A caller that also needs a transaction starts it first (see freeze).
    pub(crate) fn table(&self) -> MutexGuard<'_, TagTable> {
        self.table.lock()
    }
}

#[cfg(test)]
mod tests;
