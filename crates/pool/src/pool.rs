//! The pool: formatted memory with names in it.

mod naming;

use std::fmt;
use std::sync::Arc;

use ferrite_memory::{Memory, Survival};
use parking_lot::{Mutex, MutexGuard};

use crate::extent::Extent;
use crate::freeze::Freezers;
use crate::grant::{Grants, Opening};
use crate::holding::Holdings;
use crate::lane::Lanes;
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::poison::Poison;
use crate::redo::{Redo, Replay};
use crate::reserved::Reserved;
use crate::sealed::salt;
use crate::space::{Need, Space, Usage};
use crate::superblock::{State, Superblock, VERSION};
use crate::tag::{Tag, TagKind};
use crate::tags::{Table, page_at};
use crate::transaction::Transaction;
use crate::{Error, Result, member};

pub(crate) use naming::commit_tag;

/// An open pool. Dropped without [`Pool::close`] it is as after a crash, which costs nothing but a replay.
///
/// Whatever changes it gives [`Error::Medium`] where a persist fails: whether the change is there is known when the
/// pool is opened again, and until then every change is refused with [`Error::Poisoned`]. A change that is larger than
/// a record can be ([`crate::PAYLOAD_BYTES_MAX`]) is [`Error::Limit`], and is not made.
pub struct Pool {
    memory: Arc<dyn Memory>,
    superblock: Mutex<Superblock>,
    space: Space,
    lanes: Lanes,
    table: Mutex<Table>,
    poison: Poison,
    freezers: Freezers,
    grants: Grants,
    /// What is held by this process, and how tenants see it.
    pub(crate) holdings: Holdings,
}

/// What opening found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The pool had been closed in order.
    pub clean: bool,
    /// It was opened last in this boot of the machine.
    pub same_boot: bool,
    /// Committed transactions that were applied again.
    pub replay: Replay,
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
    pub needs: &'name [Need],
}

/// A change of a tag, all or nothing.
#[derive(Clone, Debug)]
pub struct TagChange<'a> {
    /// The new size in bytes.
    pub size: u64,
    /// The new notes.
    pub attributes: [u8; 64],
    /// Space to add behind what it has.
    pub add: &'a [Need],
    /// What to keep of its extents, whole or in part, in this order; the rest becomes free, and what it held is lost.
    pub keep: &'a [Extent],
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("superblock", &*self.superblock.lock()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Opens the pool in `memory` and recovers it. A pool that cannot be opened is not touched.
    ///
    /// # Errors
    /// [`Error::NotAPool`], [`Error::Version`], [`Error::Truncated`], [`Error::Corrupt`] and [`Error::Restoring`] say
    /// why it cannot be opened, [`Error::Medium`] that the memory failed.
    pub fn open(memory: Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<(Self, Recovery)> {
        let (pool, recovery, _) = Self::open_as(memory, boot_id, false)?;
        Ok((pool, recovery))
    }

    /// Opens the pool although it may be damaged, to check or repair it: damaged tags are missing from it, and their
    /// space still counts as in use; so are transactions that its lanes lost, which are told (lane L7).
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
            let (table, mut damage) = Table::load(&recovered, chunks * CHUNK_PAGES);
            let (space, more) = Space::load(&recovered, chunks);
            damage.extend(more);
            let (memory, pages, serial) = (&recovered, chunks * CHUNK_PAGES, superblock.generation << 32);
            let (grants, more) = Grants::load(&Opening { memory, space: &space, pages, boot_id, serial });
            damage.extend(more);
            damage.extend(member::damage(memory));
            (space, table, damage, grants)
        };
        if let Some(first) = damage.pop_if(|_| !damaged) {
            return Err(first.error);
        }
        let of_space = table.check_space(&space);
        // What is damaged may have what counts as free.
        let is_sound = lost.is_empty() && damage.is_empty() && of_space.is_ok();
        if !damaged {
            of_space?;
        }
        let lanes = Lanes::recover(&*memory, salt, &redo)?;
        table.generation = table.generation.max(superblock.generation << 32);
        let recovery = Recovery {
            clean: superblock.state == State::Clean,
            same_boot: superblock.boot_id == boot_id,
            replay: redo.replay(),
        };
        superblock.state = State::Open;
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
            holdings: Holdings::default(),
        };
        pool.grants.reap(&pool)?;
        if !recovery.clean && is_sound {
            pool.let_go_all()?;
        }
        Ok((pool, recovery, lost))
    }

    /// Closes it in order: everything durable and nothing to recover. The services on it are closed before.
    ///
    /// # Errors
    /// As [`Pool`] says; it is as after a crash then.
    pub fn close(self) -> Result<()> {
        self.check_poison()?;
        self.lanes.retire(&*self.memory)?;
        self.memory.barrier()?;
        let mut superblock = self.superblock.lock();
        superblock.state = State::Clean;
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
    pub fn usage(&self) -> Usage {
        self.space.usage()
    }

    /// Its allocator.
    pub fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn lanes(&self) -> &Lanes {
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

    /// Starts a transaction; waits while the pool stands still. No lock that others take inside theirs is held here.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Starts to take space before the transaction that makes it last.
    pub fn reserve(&self) -> Reserved<'_> {
        Reserved::new(self)
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
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

/// The superblock of the pool in `memory`. A process that was killed in this boot may have left words that are seen here and
/// that the power would still take back, after what they freed was used again: they are durable on return.
fn inherit(memory: &dyn Memory) -> Result<Superblock> {
    let superblock = Superblock::read(memory)?;
    match superblock.state {
        State::Restoring => return Err(Error::Restoring),
        State::Open => memory.inherit()?,
        State::Clean => {}
    }
    Ok(superblock)
}

#[cfg(test)]
mod tests;
