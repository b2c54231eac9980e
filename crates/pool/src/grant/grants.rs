//! Every grant of a pool, as its owner keeps them.

use std::collections::BTreeSet;

use ferrite_memory::Memory;
use parking_lot::Mutex;

use crate::damage::TableDamage;
use crate::extent::Extent;
use crate::holding::board::Board;
use crate::layout::{GRANTS, SLOT};
use crate::page_allocator::PageAllocator;
use crate::{Error, Result};

use super::process::Process;
use super::register::{GrantRegister, LiveGrant, Standing};
use super::slot::{self, GrantId, Rights};

/// Every grant of a pool.
#[derive(Debug)]
pub struct Grants(pub(super) Mutex<GrantRegister>);

/// The pool that grants are read from, as far as it is open yet.
#[derive(Clone, Copy)]
pub(crate) struct GrantSource<'a> {
    pub memory: &'a dyn Memory,
    pub space: &'a PageAllocator,
    pub pages: u64,
    pub boot_id: [u8; 16],
    /// Serials start above this, which no earlier opening reached.
    pub serial: u64,
}

impl Grants {
    /// Reads the table, and holds back what living processes may still touch (G2). Those of processes that have
    /// ended are ended by the first [`Grants::reap`]. What cannot be read is told and left out.
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
        // First the lowest.
        register.free_slots.reverse();
        let living = register.coverage(|live| live.process.is_alive());
        register.held = opening.space.hold(&living.extents());
        (Self(Mutex::new(register)), damage)
    }

    /// What the allocator gave for grants, as the medium tells: their overflow. And what cannot be read.
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

    /// Every grant that has not ended, oldest first.
    pub fn standing(&self) -> Vec<Standing> {
        self.0.lock().standing()
    }

    /// Who has grant `id`; nobody where it has ended.
    pub fn process(&self, id: GrantId) -> Option<Process> {
        self.0.lock().live.get(&id).map(|live| live.process.clone())
    }

    /// Whether a page of `extent` is under a grant: a job that would move it gives up.
    pub fn touch(&self, extent: Extent) -> bool {
        self.0.lock().coverage(|_| true).touches(extent)
    }

    /// What the allocator gave for grants and what is held back for them: overflow and freed pages.
    pub fn own_extents(&self) -> Vec<Extent> {
        self.0.lock().own_extents()
    }

    /// Lets the holder of grant `id` be told by `board`, by the word that is returned.
    pub(crate) fn tie(&self, id: GrantId, board: &Board) -> Result<usize> {
        let mut register = self.0.lock();
        let live = register.find(id)?;
        let bell = board.bell(((live.slot - GRANTS) / SLOT) as usize);
        let word = bell.word();
        // Somebody may have asked already.
        if live.asked {
            bell.ring();
        }
        (live.board, live.bell) = (Some(bell), None);
        Ok(word)
    }

    /// Fails with [`Error::Busy`] if there is a grant through which somebody may store, but those that are `stilled`. Nobody
    /// is asked for one: who was would lose what it works on, for a backup that is refused all the same.
    pub(crate) fn refuse_writers(&self, stilled: &[GrantId]) -> Result<()> {
        let register = self.0.lock();
        let may_store = |live: &LiveGrant| live.rights == Rights::ReadWrite && live.process.is_alive();
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

    /// Asks for every grant on the tag of this generation back (G6); how many there are.
    pub fn revoke_tag(&self, generation: u64) -> usize {
        self.0.lock().live.values_mut().filter(|live| live.tag_generation == generation).map(LiveGrant::ask).count()
    }

    /// Who has a grant on the tag of this generation.
    pub(crate) fn holder(&self, tag_generation: u64) -> Option<Process> {
        let register = self.0.lock();
        let live = register.live.values().find(|live| live.tag_generation == tag_generation)?;
        Some(live.process.clone())
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.lock().free_slots.is_empty()
    }

    /// Makes freed `extents` free for all, but for pages under a grant (G2). Their transaction has committed.
    pub(crate) fn free(&self, space: &PageAllocator, extents: &[Extent]) {
        if !extents.is_empty() {
            self.0.lock().free(space, extents);
        }
    }
}
