//! The worker's part when SSDs join, leave and come back: which LEBs are free, and how pages leave an SSD.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Wait;
use ferrite_memory::planted;
use ferrite_pool::Result;

use crate::bad_copies::{PageAccess, UnreadableBlock};
use crate::cache_core::CacheCore;
use crate::cache_members::CacheSsd;
use crate::cache_worker::{CacheWorker, WorkerPart};
use crate::collect::MoveJob;
use crate::dead_marks::give_up_dirty;
use crate::page_word::{LebPlace, LebPlaces};

/// How a table without dirty pages leaves an SSD.
enum TableExit {
    /// Its other copy stays.
    KeepOther,
    /// Its hot pages move, and it is freed.
    Move,
    /// It is freed: no copy can be read.
    Free,
}

impl CacheWorker {
    /// Returns the places of each table that is valid, or whose LEBs may still be read, with the sequences of the valid
    /// ones.
    fn tables_with_places(&self) -> impl Iterator<Item = (Option<u64>, u32, LebPlaces)> + '_ {
        let valid = self.valid.iter().map(|(sequence, valid)| (Some(*sequence), valid.table));
        let dying = self.dying.iter().map(|table| (None, *table));
        valid
            .chain(dying)
            .map(|(sequence, table)| (sequence, table, self.core.memory.table_places(table).unwrap_or_default()))
    }

    /// Returns the LEBs of the SSD `id` that are neither free nor out of use.
    pub(crate) fn used_lebs(&self, id: u8) -> HashSet<u32> {
        let tables = self.tables_with_places().flat_map(|(.., places)| places.into_iter().flatten());
        let sealed = self.seals.values().flat_map(|seal| seal.places().iter().copied());
        let dropped = self.dropped.iter().map(|(_, place)| *place);
        let discarded = self.parts.values().filter_map(|part| match part {
            WorkerPart::Discard { place } => Some(*place),
            _ => None,
        });
        let used = tables.chain(sealed).chain(dropped).chain(discarded).filter(|place| place.ssd == id);
        used.map(|place| place.leb).collect()
    }

    /// Handles the requests that have ended, also those to SSDs that failed.
    ///
    /// # Errors
    /// The errors of the pool.
    pub(crate) fn end_requests(&mut self) -> Result<()> {
        for end in self.members.collect(Wait::No)? {
            self.end_part(end)?;
        }
        self.look_at_failures()
    }

    /// Returns true if a LEB of the SSD `id` is being written.
    pub(crate) fn is_sealing_to(&self, id: u8) -> bool {
        self.seals.values().any(|seal| seal.places().iter().any(|place| place.ssd == id))
    }

    /// Lets no LEB of the SSD `id` be written any more.
    pub(crate) fn close_space(&mut self, id: u8) {
        self.space.forget(id);
        self.discards.retain(|place| place.ssd != id);
    }

    /// Frees the unused LEBs of `ssd` for new seals (CA9), after they were discarded.
    pub(crate) fn open_space(&mut self, ssd: &CacheSsd) {
        self.close_space(ssd.id);
        let used = self.used_lebs(ssd.id);
        let free = (1..ssd.lebs).filter(|leb| !used.contains(leb));
        self.discards.extend(free.map(|leb| LebPlace { ssd: ssd.id, leb }));
    }

    /// Adds tables that are free.
    pub(crate) fn add_tables(&mut self, tables: Range<u32>) {
        // Tables are taken from the end: the lowest numbers first.
        self.free_tables.splice(0..0, tables.rev());
    }

    /// Returns the number of LEBs of the SSD `id` that are in use.
    pub(crate) fn left_on(&self, id: u8) -> usize {
        if planted!("cache: an SSD leaves while tables name it") {
            return 0;
        }
        self.used_lebs(id).len()
    }

    /// Returns the number of dirty pages whose only copy is on the SSD `id`.
    pub(crate) fn dirty_only_on(&self, id: u8) -> u64 {
        let valid = self.valid.values().map(|valid| valid.table);
        let only = valid.filter(|table| {
            let places = self.core.memory.table_places(*table).unwrap_or_default();
            let mut ssds = places.iter().flatten().map(|place| place.ssd).peekable();
            ssds.peek().is_some() && ssds.all(|ssd| ssd == id)
        });
        only.map(|table| u64::from(self.core.memory.table_state(table).dirty.load(Ordering::Acquire))).sum()
    }

    /// Lets no table name the SSD `id`. Pages that are only there leave the cache, dirty ones too. Durable on return.
    ///
    /// # Errors
    /// The errors of the pool.
    pub(crate) fn forget_copies(&mut self, id: u8) -> Result<()> {
        let (mut kept, mut freed) = (Vec::new(), Vec::new());
        for (sequence, table, places) in self.tables_with_places() {
            let (gone, other): (Vec<_>, Vec<_>) = places.into_iter().flatten().partition(|place| place.ssd == id);
            match (sequence, other.first()) {
                _ if gone.is_empty() => {}
                (_, Some(other)) => kept.push((table, *other)),
                (Some(sequence), None) => freed.push((sequence, table)),
                (None, None) => {}
            }
        }
        self.core.change_tables(|memory| {
            kept.iter().for_each(|(table, other)| memory.set_table_places(*table, [Some(*other), None]));
            Ok(())
        })?;
        self.free_valid_tables(&freed)
    }

    /// Lets tables leave the SSDs that the user removes. Returns the pages of one that have to move.
    ///
    /// # Errors
    /// The errors of the pool.
    pub(crate) fn next_leaving(&mut self) -> Result<Option<MoveJob>> {
        let leaving = self.core.ssds.all().into_iter().filter(|ssd| ssd.leaves.load(Ordering::SeqCst));
        let leaving: HashSet<u8> = leaving.map(|ssd| ssd.id).collect();
        if leaving.is_empty() {
            return Ok(None);
        }
        let (mut kept, mut freed, mut moved) = (Vec::new(), Vec::new(), None);
        for (sequence, table, places) in self.tables_with_places() {
            let Some(sequence) = sequence else { continue };
            let is_dirty = self.core.memory.table_state(table).dirty.load(Ordering::Acquire) > 0;
            if is_dirty || !places.iter().flatten().any(|place| leaving.contains(&place.ssd)) {
                continue;
            }
            match exit_of(&self.core, places, &leaving) {
                TableExit::KeepOther => kept.push((table, places)),
                TableExit::Free => freed.push((sequence, table)),
                TableExit::Move => moved = moved.or(Some((sequence, table))),
            }
        }
        self.keep_others(&kept, &leaving)?;
        self.free_valid_tables(&freed)?;
        Ok(moved.map(|(sequence, table)| self.move_of(sequence, table)))
    }

    fn keep_others(&mut self, kept: &[(u32, LebPlaces)], leaving: &HashSet<u8>) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let other = |places: &LebPlaces| places.iter().flatten().find(|place| !leaving.contains(&place.ssd)).copied();
        self.core.change_tables(|memory| {
            kept.iter().for_each(|(table, places)| memory.set_table_places(*table, [other(places), None]));
            Ok(())
        })?;
        for (table, places) in kept {
            let gone = places.iter().flatten().filter(|place| leaving.contains(&place.ssd));
            self.dropped.extend(gone.map(|place| (*table, *place)));
        }
        Ok(())
    }
}

/// Returns the number of free LEBs of the SSD `id`, also of those that are discarded before they are written again.
pub(crate) fn free_lebs(worker: &CacheWorker, id: u8) -> u64 {
    let waiting = worker.discards.iter().filter(|place| place.ssd == id).count();
    let is_discard = |part: &&WorkerPart| matches!(part, WorkerPart::Discard { place } if place.ssd == id);
    (worker.space.count(id) + waiting + worker.parts.values().filter(is_discard).count()) as u64
}

/// Drops the dirty blocks `unreadable`, which keep `ssd` in the cache: each has a copy there. Keeps those that a missing
/// SSD may give instead of one that failed. Durable on return.
///
/// # Errors
/// The errors of the pool.
pub(crate) fn give_up(worker: &mut CacheWorker, ssd: &CacheSsd, unreadable: &[UnreadableBlock]) -> Result<()> {
    let core = Arc::clone(&worker.core);
    let mut kept = Vec::new();
    for UnreadableBlock { key, page, .. } in unreadable {
        let (table, _) = core.memory.table_of(*page);
        let others = core.bad.of(*page) | 1 << ssd.id;
        // Blocks that are readable on `ssd` may be in the table of one that is not.
        if !ssd.is_readable() && core.access_of(table, others) == PageAccess::Away {
            kept.push((table, core.memory.table_places(table).unwrap_or_default()));
        } else {
            give_up_dirty(&core, *key, *page);
        }
    }
    kept.dedup_by_key(|(table, _)| *table);
    worker.keep_others(&kept, &HashSet::from([ssd.id]))?;
    core.apply_marks()
}

fn exit_of(core: &CacheCore, places: LebPlaces, leaving: &HashSet<u8>) -> TableExit {
    let can_read = |place: &LebPlace| core.ssds.get(place.ssd).is_some_and(|ssd| ssd.is_readable());
    let mut places = places.iter().flatten();
    match places.clone().any(|place| !leaving.contains(&place.ssd) && can_read(place)) {
        true => TableExit::KeepOther,
        false if places.any(can_read) => TableExit::Move,
        false => TableExit::Free,
    }
}
