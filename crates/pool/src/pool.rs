//! The pool: formatted memory with names in it.

pub(crate) mod open_pool;
pub(crate) mod tag_change;

use std::fmt;
use std::sync::Arc;

use ferrite_memory::{Memory, Survival};
use parking_lot::{Mutex, MutexGuard};

use crate::extent::{Extent, page_at};
use crate::freeze::frozen_services::Freezers;
use crate::grant::grants::Grants;
use crate::holding::board::Holdings;
use crate::lane::LaneSet;
use crate::page_allocator::{PageAllocator, SpaceNeed, SpaceUsage};
use crate::poison::Poison;
use crate::superblock::{PoolState, Superblock, VERSION};
use crate::tag::{Tag, TagKind};
use crate::tag_table::TagTable;
use crate::{Error, Result};

/// An open pool. Dropped without [`Pool::close`] it is as after a crash, which costs nothing but a replay.
///
/// Whatever changes it gives [`Error::Medium`] where a persist fails: whether the change is there is known when the
/// pool is opened again, and until then every change is refused with [`Error::Poisoned`]. A change that is larger than
/// a record can be ([`crate::PAYLOAD_BYTES_MAX`]) is [`Error::Limit`], and is not made.
pub struct Pool {
    memory: Arc<dyn Memory>,
    superblock: Mutex<Superblock>,
    space: PageAllocator,
    lanes: LaneSet,
    table: Mutex<TagTable>,
    poison: Poison,
    freezers: Freezers,
    grants: Grants,
    /// What is held by this process, and how tenants see it.
    pub(crate) holdings: Holdings,
}

/// A tag to be made.
#[derive(Clone, Debug)]
pub struct NewTag<'name> {
    /// Its name, not yet in use.
    pub name: &'name str,
    /// What it names.
    pub kind: TagKind,
    /// Its size in bytes as its users see it.
    pub size: u64,
    /// The service's notes.
    pub attributes: [u8; 64],
    /// The space it takes.
    pub needs: &'name [SpaceNeed],
}

/// A change of a tag, all or nothing.
#[derive(Clone, Debug)]
pub struct TagChange<'a> {
    /// The new size in bytes.
    pub size: u64,
    /// The new notes.
    pub attributes: [u8; 64],
    /// Space to add behind what it has.
    pub add: &'a [SpaceNeed],
    /// What to keep of its extents, whole or in part, in this order; the rest becomes free, and what it held is lost.
    pub keep: &'a [Extent],
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("superblock", &*self.superblock.lock()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Closes it in order: everything durable and nothing to recover. The services on it are closed before.
    ///
    /// # Errors
    /// As [`Pool`] says; it is as after a crash then.
    pub fn close(self) -> Result<()> {
        self.check_poison()?;
        self.lanes.retire(&*self.memory)?;
        self.memory.barrier()?;
        let mut superblock = self.superblock.lock();
        superblock.state = PoolState::Clean;
        superblock.advance(&*self.memory)
    }

    /// Its memory.
    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// Its memory, to keep.
    pub fn memory_handle(&self) -> Arc<dyn Memory> {
        Arc::clone(&self.memory)
    }

    /// Returns which failures the pool survives: what its medium says, and what its user claims of that medium.
    pub fn survival(&self) -> Survival {
        let found = self.memory.survival();
        let is_trusted = self.superblock.lock().trusted == found.fingerprint();
        if is_trusted { found.trusted() } else { found }
    }

    /// Records whether the pool's user trusts the medium to survive kernel crashes and power loss. A pool that is moved to
    /// a medium of another kind is not trusted there.
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

    /// Gives the pool the newest format, before anything of that is written. Durable on return.
    pub(crate) fn raise_version(&self) -> Result<()> {
        self.check_poison()?;
        let mut superblock = self.superblock.lock();
        if superblock.version == VERSION {
            return Ok(());
        }
        superblock.version = VERSION;
        superblock.advance(&*self.memory).inspect_err(|error| self.poison(error))
    }

    /// Its superblock as last written.
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// How its space is used.
    pub fn usage(&self) -> SpaceUsage {
        self.space.usage()
    }

    /// Its allocator.
    pub fn space(&self) -> &PageAllocator {
        &self.space
    }

    pub(crate) fn lanes(&self) -> &LaneSet {
        &self.lanes
    }

    /// Sees to it that no record of a committed transaction is replayed any more. After it a service may store directly
    /// where its transactions wrote before (lane L6).
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn retire(&self) -> Result<()> {
        self.check_poison()?;
        self.lanes.retire(&*self.memory).inspect_err(|error| self.poison(error))
    }

    /// Its grants.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// What stands still with it.
    pub(crate) fn freezers(&self) -> &Freezers {
        &self.freezers
    }

    /// Refuses when an earlier persist failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    #[inline]
    pub fn check_poison(&self) -> Result<()> {
        self.poison.check()
    }

    /// Notes that a persist failed: every later change is refused until the pool is opened again.
    pub fn poison(&self, why: &dyn fmt::Display) {
        self.poison.note(why);
    }

    /// Every tag, by name.
    pub fn tags(&self) -> Vec<Arc<Tag>> {
        self.table.lock().tags.values().map(|entry| Arc::clone(&entry.tag)).collect()
    }

    /// The tag called `name`.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn tag(&self, name: &str) -> Result<Arc<Tag>> {
        let table = self.table.lock();
        table.tags.get(name).map(|entry| Arc::clone(&entry.tag)).ok_or_else(|| Error::NotFound(name.into()))
    }

    /// `tag` as it stands now.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not the tag of that name any more.
    pub fn tag_now(&self, tag: &Tag) -> Result<Arc<Tag>> {
        self.table.lock().current(tag).map(|entry| entry.tag)
    }

    /// Every extent that the allocator gave to no tag: chained tag pages, extent overflow, and what is in use or held
    /// back for grants.
    pub fn own_extents(&self) -> Vec<Extent> {
        let table = self.table.lock();
        let chained = table.pages.iter().skip(1).map(|page| page_at(*page));
        let of_tags = table.tags.values().flat_map(|entry| entry.overflow.clone());
        chained.chain(of_tags).chain(self.grants.own_extents()).collect()
    }

    /// The tag table. Whoever needs a transaction too starts it before (freeze).
    pub(crate) fn table(&self) -> MutexGuard<'_, TagTable> {
        self.table.lock()
    }
}

#[cfg(test)]
mod tests;
