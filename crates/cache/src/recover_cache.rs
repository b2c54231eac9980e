//! Recovery: the index, the buffers and the free LEBs from what the pool has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use crate::cache_core::CacheCore;
use crate::cache_index::IndexBatch;
use crate::cache_layout::BLOCK;
use crate::cache_memory::sum_of;
use crate::cache_worker::{ValidTable, WorkerStart};
use crate::leb_space::LebSpace;
use crate::leb_table::TableContent;
use crate::page_word::{BlockKey, LebPlace, PageRef};
use crate::write_buffer::SlotHeader;
use crate::{CacheError, Result};

/// What recovery found, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CacheRecovery {
    /// Sealed LEBs.
    pub tables: u64,
    /// Blocks in buffers.
    pub slots: u64,
    /// Dirty blocks.
    pub dirty: u64,
    /// Blocks in the cache.
    pub blocks: u64,
}

/// Builds the state of `core` from its memory.
///
/// # Errors
/// [`CacheError::Damaged`], and the errors of the pool.
pub(crate) fn recover(core: &CacheCore) -> Result<(WorkerStart, CacheRecovery)> {
    let mut tables = RecoveredTables::default();
    let pages = core.memory.tables() as usize * core.memory.layout().pages() as usize;
    core.index.reserve(pages, |known| core.key_of(known));
    for table in 0..core.memory.tables() {
        let content =
            core.memory.load_table(table).map_err(|fault| damaged(core, &format!("table {table}: {fault}")))?;
        match content {
            None => tables.free.push(table),
            Some(content) => tables.add(core, table, &content)?,
        }
    }
    tables.add_batch(core)?;
    let slots = recover_slots(core, &tables.valid)?;
    if !core.buffers.has_epochs() {
        return Err(damaged(core, "it has no epochs left"));
    }
    core.apply_marks()?;
    let mut space = LebSpace::default();
    for ssd in core.ssds.all().into_iter().filter(|ssd| ssd.is_writable()) {
        for leb in 1..ssd.lebs {
            let place = LebPlace { ssd: ssd.id, leb };
            if !tables.places.contains(&place) {
                space.add(place);
            }
        }
    }
    let blocks =
        tables.valid.values().map(|valid| u64::from(core.memory.table_state(valid.table).live.load(Ordering::Relaxed)));
    let found = CacheRecovery {
        tables: tables.valid.len() as u64,
        slots,
        dirty: core.dirty.load(Ordering::Relaxed).max(0) as u64,
        blocks: blocks.sum::<u64>() + slots,
    };
    // Tables are taken from the end: the lowest numbers first.
    tables.free.reverse();
    Ok((WorkerStart { valid: tables.valid, free_tables: tables.free, space }, found))
}

fn damaged(core: &CacheCore, what: &str) -> CacheError {
    CacheError::Damaged(format!(
        "the cache {:?} is damaged in the pool: {what}; restore the pool from a backup",
        core.name
    ))
}

#[derive(Default)]
struct RecoveredTables {
    valid: BTreeMap<u64, ValidTable>,
    free: Vec<u32>,
    places: HashSet<LebPlace>,
    batch: IndexBatch,
}

impl RecoveredTables {
    fn add(&mut self, core: &CacheCore, table: u32, content: &TableContent) -> Result<()> {
        let wrong = |what: &str| damaged(core, &format!("table {table} {what}"));
        let since_ns = core.clock.now_ns();
        if self.valid.insert(content.sequence, ValidTable { table, since_ns }).is_some() {
            return Err(wrong("has the sequence of another table"));
        }
        core.buffers.pass_epoch(content.sequence);
        for place in content.places.iter().flatten() {
            let is_known = core.ssds.get(place.ssd).is_none_or(|ssd| (1..ssd.lebs).contains(&place.leb));
            if !is_known || !self.places.insert(*place) {
                return Err(wrong("names a LEB that is not its own"));
            }
        }
        let (mut live, mut dirty, mut known_disk) = (0, 0, None);
        for (index, page) in (0..).zip(&content.pages).filter(|(_, page)| page.word.live) {
            let (key, place) = (page.word.key, core.memory.page_ref(table, index));
            if known_disk != Some(key.disk()) && core.disks.get(key.disk()).is_none() {
                return Err(wrong("names a disk that the cache does not have"));
            }
            known_disk = Some(key.disk());
            if page.word.hits > 0 {
                core.memory.page_hits(place).store(page.word.hits, Ordering::Relaxed);
            }
            live += 1;
            dirty += u32::from(page.word.dirty);
            if page.word.dirty && page.word.lost {
                core.bad.note_lost(place);
            }
            if self.batch.push(key, place) {
                self.add_batch(core)?;
            }
        }
        let state = core.memory.table_state(table);
        state.live.store(live, Ordering::Relaxed);
        state.dirty.store(dirty, Ordering::Relaxed);
        core.dirty.fetch_add(i64::from(dirty), Ordering::Relaxed);
        if live == 0 {
            core.note_empty(table);
        }
        Ok(())
    }

    /// Adds the versions that were found to the index.
    fn add_batch(&mut self, core: &CacheCore) -> Result<()> {
        let Some((key, page)) = core.index.add(&mut self.batch, |known| core.key_of(known)) else { return Ok(()) };
        let (table, _) = core.memory.table_of(page);
        let (block, disk) = (key.block(), key.disk());
        Err(damaged(core, &format!("table {table} and another one have block {block} of disk {disk}")))
    }
}

/// The newest slot of a block.
struct NewestSlot {
    slot: u32,
    header: SlotHeader,
}

/// Adopts the buffers that were not sealed. Returns the number of blocks in them.
fn recover_slots(core: &CacheCore, valid: &BTreeMap<u64, ValidTable>) -> Result<u64> {
    let layout = *core.memory.layout();
    let mut newest: HashMap<BlockKey, NewestSlot> = HashMap::new();
    let mut adopted = Vec::new();
    for buffer in 0..layout.buffers {
        let epoch =
            core.memory.buffer_epoch(buffer).ok_or_else(|| damaged(core, &format!("the head of buffer {buffer}")))?;
        core.buffers.pass_epoch(epoch);
        pass_earlier_epochs(core, buffer);
        if epoch == 0 {
            continue;
        }
        if valid.contains_key(&epoch) {
            // Sealed: its table has all that counts.
            core.change_tables(|memory| {
                memory.set_buffer_epoch(buffer, 0);
                Ok(())
            })?;
            continue;
        }
        adopted.push((buffer, epoch));
        for slot in buffer * layout.pages()..(buffer + 1) * layout.pages() {
            let Some(header) = counted_slot(core, slot, epoch) else { continue };
            core.pass_sequence(header.sequence);
            let is_newer = newest.get(&header.word.key).is_none_or(|known| known.header.sequence < header.sequence);
            if is_newer && let Some(old) = newest.insert(header.word.key, NewestSlot { slot, header }) {
                core.mark_slot_dead(old.slot, old.header.epoch);
            } else if !is_newer {
                core.mark_slot_dead(slot, epoch);
            }
        }
    }
    for (buffer, epoch) in adopted {
        core.buffers.adopt(buffer, epoch);
    }
    let count = newest.len() as u64;
    for (key, NewestSlot { slot, header }) in newest {
        if core.disks.get(key.disk()).is_none() {
            return Err(damaged(core, &format!("slot {slot} names a disk that the cache does not have")));
        }
        core.adopt_slot(slot, &header);
    }
    Ok(count)
}

/// Lets later epochs be greater than the epochs of all slots of `buffer`, because free buffers and free tables keep no
/// epoch (WB4).
fn pass_earlier_epochs(core: &CacheCore, buffer: u32) {
    if planted!("cache: an epoch comes again") {
        return;
    }
    let pages = core.memory.layout().pages();
    let headers = (buffer * pages..(buffer + 1) * pages).filter_map(|slot| core.memory.load_slot_header(slot));
    headers.for_each(|header| core.buffers.pass_epoch(header.epoch));
}

/// Returns the header of the slot `slot` if the slot counts in the filling `epoch` (WB1).
fn counted_slot(core: &CacheCore, slot: u32, epoch: u64) -> Option<SlotHeader> {
    let header = core.memory.load_slot_header(slot)?;
    // The disk may have lost what such a slot was read from (CA21).
    if header.epoch != epoch || header.is_dead || header.word.lost {
        return None;
    }
    let mut data = vec![0; BLOCK as usize];
    core.memory.load_slot_data(slot, 0, &mut data);
    (sum_of(&data) == header.sum).then_some(header)
}

impl CacheCore {
    fn adopt_slot(&self, slot: u32, header: &SlotHeader) {
        let is_clean = header.is_clean && !planted!("cache: recovery takes clean blocks as dirty");
        let dirty = header.word.dirty && !is_clean;
        self.slots[slot as usize].fill(crate::page_word::PageWord { dirty, ..header.word });
        if dirty {
            self.dirty.fetch_add(1, Ordering::Relaxed);
        }
        let key = header.word.key;
        let mut shard = self.index.lock(key);
        if let Some(old) = shard.replace(key, PageRef::slot(slot), |known| self.key_of(known)) {
            self.retire(old, false);
        }
    }
}
