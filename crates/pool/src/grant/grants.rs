//! The table of grants.

use std::collections::BTreeSet;

use ferrite_memory::{Memory, planted};
use parking_lot::Mutex;

use crate::damage::TableDamage;
use crate::extent::Extent;
use crate::holding::lease_words::LeaseWords;
use crate::layout::PAGE;
use crate::page_allocator::PageAllocator;
use crate::{Error, Pool, Result};

use super::process_identity::Process;
use super::register::{GrantRegister, LiveGrant, StandingGrant};
use super::slot::{self, GrantId, GrantRights};

/// Every grant of a pool.
#[derive(Debug)]
pub struct Grants(pub(super) Mutex<GrantRegister>);

/// The parts of a pool, during its opening, from which its grants are read.
#[derive(Clone, Copy)]
pub(crate) struct GrantSource<'a> {
    pub memory: &'a dyn Memory,
    pub space: &'a PageAllocator,
    pub pages: u64,
    pub boot_id: [u8; 16],
    /// The bound of serials of earlier openings. New serials are greater.
    pub serial: u64,
}

impl Grants {
    /// Reads the table, and holds the pages that living processes may still access (G2). The first [`Grants::reap`]
    /// ends the grants of ended processes. Returns the damage of slots that cannot be read, which are left out.
    pub(crate) fn load(opening: &GrantSource<'_>) -> (Self, Vec<TableDamage>) {
        let (mut register, mut damage) = (GrantRegister::new(opening.serial), Vec::new());
        for slot in slot::places() {
            match slot::load(opening.memory, slot, opening.pages) {
                Ok(None) => register.free_slots.push(slot),
                Ok(Some((record, overflow))) => {
                    let process = Process::recall(record.process, opening.boot_id);
                    register.insert(record.id, LiveGrant::new(slot, process, record, overflow));
                }
                Err(error) => damage.push(TableDamage { error, at: slot, is_slot: true }),
            }
        }
        // The lowest slot is used first.
        register.free_slots.reverse();
        let living = register.coverage(|live| live.process.is_alive());
        register.held = opening.space.hold(&living.extents());
        (Self(Mutex::new(register)), damage)
    }

    /// Returns the allocated pages of grants by the medium, which are their overflow pages, and the damage of slots
    /// that cannot be read.
    pub(crate) fn claims(memory: &dyn Memory, pages: u64) -> (Vec<Extent>, Vec<TableDamage>) {
        let (mut claims, mut damage) = (Vec::new(), Vec::new());
        for slot in slot::places() {
            match slot::load(memory, slot, pages) {
                Ok(found) => claims.extend(found.into_iter().flat_map(|(_, overflow)| overflow)),
                Err(error) => damage.push(TableDamage { error, at: slot, is_slot: true }),
            }
        }
        (claims, damage)
    }

    /// Returns every grant that has not ended, oldest first.
    pub fn standing(&self) -> Vec<StandingGrant> {
        self.0.lock().standing()
    }

    /// Returns the process with grant `id`, or `None` if the grant has ended.
    pub fn process(&self, id: GrantId) -> Option<Process> {
        self.0.lock().live.get(&id).map(|live| live.process.clone())
    }

    /// Returns true if a page of `extent` is under a grant, so that it must not move.
    pub fn touch(&self, extent: Extent) -> bool {
        self.0.lock().coverage(|_| true).touches(extent)
    }

    /// Returns the pages that are allocated or held for grants: overflow pages and freed pages.
    pub fn own_extents(&self) -> Vec<Extent> {
        self.0.lock().own_extents()
    }

    /// Shows the holder of grant `id` its revocation in a word of `board`. Returns the index of the word.
    pub(crate) fn tie(&self, id: GrantId, board: &LeaseWords) -> Result<usize> {
        let mut register = self.0.lock();
        let live = register.find(id)?;
        let bell = board.bell(live.slot_index());
        let word = bell.word();
        // The grant may have been revoked already.
        if live.asked {
            bell.ring();
        }
        (live.board, live.bell) = (Some(bell), None);
        Ok(word)
    }

    /// Returns the index of the slot of grant `id`.
    pub(crate) fn slot_of(&self, id: GrantId) -> Result<usize> {
        self.0.lock().find(id).map(|live| live.slot_index())
    }

    /// Fails with [`Error::Busy`] if a client of the frozen `pool` may store through a grant that is not `stilled`. A slot
    /// that cannot be read counts as such a client. Revokes no grant: the client would lose it for a backup that fails
    /// anyway.
    pub(crate) fn refuse_writers(&self, pool: &Pool, stilled: &[GrantId]) -> Result<()> {
        self.refuse_damaged_slots(pool)?;
        let register = self.0.lock();
        let may_store = |live: &LiveGrant| live.rights == GrantRights::ReadWrite && live.process.is_alive();
        let moving = register.live.iter().filter(|(id, live)| !stilled.contains(id) && may_store(live));
        let writers: BTreeSet<u32> = moving.map(|(_, live)| live.process.identity().pid).collect();
        if writers.is_empty() {
            return Ok(());
        }
        let pids: Vec<String> = writers.iter().map(u32::to_string).collect();
        Err(Error::Busy(format!(
            "other processes write to the pool directly ({}): close their open files and tags, or end them, and try again",
            pids.join(", ")
        )))
    }

    /// Fails with [`Error::Busy`] if a slot cannot be read: its client is not known, and an image with the slot could not
    /// be opened.
    fn refuse_damaged_slots(&self, pool: &Pool) -> Result<()> {
        let (_, damage) = Self::claims(pool.memory(), pool.superblock().size / PAGE);
        match damage.first() {
            Some(damage) if !planted!("grant: a slot that cannot be read is no client") => Err(Error::Busy(format!(
                "the grant slot at byte {:#x} cannot be read, so a process that is not known may write to the pool directly: end \
                 the programs that use the pool, run `ferrite pool check --repair`, and try again",
                damage.at
            ))),
            _ => Ok(()),
        }
    }

    /// Revokes every grant on the tag of this generation (G6). Returns their number.
    pub fn revoke_tag(&self, generation: u64) -> usize {
        self.0.lock().live.values_mut().filter(|live| live.tag_generation == generation).map(LiveGrant::ask).count()
    }

    /// Returns the process with a grant on the tag of this generation.
    pub(crate) fn holder(&self, tag_generation: u64) -> Option<Process> {
        let register = self.0.lock();
        let live = register.live.values().find(|live| live.tag_generation == tag_generation)?;
        Some(live.process.clone())
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.lock().free_slots.is_empty()
    }

    /// Frees `extents`, except pages under a grant, which are held (G2). Their transaction has committed.
    pub(crate) fn free(&self, space: &PageAllocator, extents: &[Extent]) {
        if !extents.is_empty() {
            self.0.lock().free(space, extents);
        }
    }
}
