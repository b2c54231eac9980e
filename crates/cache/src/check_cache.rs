//! Checking an open cache: the tables and slots in the pool, what the SSDs hold, and the disks beside it.
//!
//! A check writes nothing but dead marks, which would be stored anyway. Clients continue. The worker waits while the
//! places of all tables are compared, and while one table is compared with DRAM. It continues between tables and while
//! members are read. A difference that a client's change may have caused is compared again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::{Op, ReadyEvent, Wait};
use ferrite_memory::{Span, planted};
use parking_lot::MutexGuard;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::cache::Cache;
use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_memory::sum_of;
use crate::leb_table::{TableContent, TablePage, decode_table};
use crate::member_queues::{Member, MemberQueues, MemberRequest};
use crate::page_word::{BlockKey, LebPlace, LebPlaces, PageRef};

mod check_stamps;

/// Findings that a report lists at most.
const LISTED_MAX: usize = 1000;
/// How often a comparison is repeated that a client may have overtaken.
const TRIES: u32 = 8;

/// The parts of a check besides the structure in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCheckOptions {
    /// Read every copy on the SSDs, and compare the sums of its pages and its header.
    #[serde(default)]
    pub read: bool,
    /// Read the clean blocks from the disks and compare the sums.
    #[serde(default)]
    pub against_disk: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCheckReport {
    /// Tables of sealed LEBs.
    pub tables: u64,
    /// Slots that count.
    pub slots: u64,
    /// Stamps of SSDs and disks that were compared.
    pub stamps: u64,
    /// Pages on SSDs whose sums were compared.
    pub pages_read: u64,
    /// Blocks that were compared with the disks.
    pub blocks_compared: u64,
    /// Copies that were not read, because their SSD is not in use.
    pub copies_away: u64,
    /// All findings.
    pub found: u64,
    /// The first of them, for people.
    pub findings: Vec<String>,
}

impl CacheCheckReport {
    /// Returns true if nothing was found.
    pub fn is_sound(&self) -> bool {
        self.found == 0
    }

    fn find(&mut self, finding: String) {
        self.found += 1;
        if self.findings.len() < LISTED_MAX {
            self.findings.push(finding);
        }
    }
}

/// A check that is under way.
struct CacheCheck<'a> {
    core: &'a Arc<CacheCore>,
    members: MemberQueues,
    report: CacheCheckReport,
}

impl Cache {
    /// Checks the cache. `progress` is called with the tables that are done and all tables, and ends the check by false.
    /// Returns `None` then.
    ///
    /// # Errors
    /// The errors of the pool. What is wrong with the cache and its members is in the report.
    pub fn check(
        &self,
        options: &CacheCheckOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<CacheCheckReport>> {
        let members = MemberQueues::new(Arc::clone(&self.core), Arc::new(ReadyEvent::new()?))?;
        let mut check = CacheCheck { core: &self.core, members, report: CacheCheckReport::default() };
        self.check_places(&mut check);
        self.check_stamps(&mut check)?;
        let tables = u64::from(self.core.memory.tables());
        for table in 0..self.core.memory.tables() {
            if !progress(table.into(), tables) {
                return Ok(None);
            }
            check.check_table(self, table)?;
            if options.read || options.against_disk {
                self.check_content(&mut check, options, table)?;
            }
        }
        check.check_slots(options);
        progress(tables, tables);
        Ok(Some(check.report))
    }

    /// Compares the states and places of all tables with each other, and the counts of dirty pages, at one moment.
    fn check_places(&self, check: &mut CacheCheck<'_>) {
        let worker = self.worker.lock();
        let mut places = HashSet::new();
        let known: HashSet<u32> = worker.valid.values().map(|valid| valid.table).collect();
        for table in 0..self.core.memory.tables() {
            match self.core.memory.table_sequence(table) {
                Ok(Some(_)) => {
                    let own = self.core.memory.table_places(table).unwrap_or_default();
                    check.compare_places(table, own, &mut places);
                }
                Ok(None) if known.contains(&table) => {
                    check.report.find(format!("table {table}: in use, and free in the pool"));
                }
                // A fault is found with the content of the table.
                Ok(None) | Err(_) => {}
            }
        }
        let (counted, dirty) = self.core.dirty_counts(worker.valid.values().map(|valid| valid.table));
        if counted != dirty {
            check.report.find(format!("{counted} dirty pages are counted, and {dirty} are there"));
        }
    }

    /// Compares what the copies of a table hold, and the disk beside it, while the table stays as it is.
    fn check_content(&self, check: &mut CacheCheck<'_>, options: &CacheCheckOptions, table: u32) -> Result<()> {
        let content = {
            let worker = self.worker.lock();
            let content = self.core.memory.load_table(table).ok().flatten();
            let is_valid =
                |content: &TableContent| worker.valid.get(&content.sequence).is_some_and(|valid| valid.table == table);
            let Some(content) = content.filter(is_valid) else { return Ok(()) };
            // Its LEBs stay until it is no longer read (CA9).
            self.core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
            content
        };
        let checked = (|| {
            if options.read {
                content.places.iter().flatten().try_for_each(|place| check.read_copy(table, &content, *place))?;
            }
            if options.against_disk {
                check.compare_with_disk(table, &content)?;
            }
            Ok(())
        })();
        self.core.end_reader(self.core.memory.page_ref(table, 0));
        checked
    }
}

impl CacheCheck<'_> {
    /// Compares a table with DRAM.
    fn check_table(&mut self, cache: &Cache, table: u32) -> Result<()> {
        let worker = cache.worker.lock();
        match cache.core.memory.load_table(table) {
            Err(fault) => self.report.find(format!("table {table}: {fault}")),
            Ok(None) => {}
            Ok(Some(content)) => {
                self.report.tables += 1;
                if worker.valid.get(&content.sequence).is_some_and(|valid| valid.table == table) {
                    self.compare_table(table, &content)?;
                } else {
                    self.report.find(format!("table {table}: valid in the pool, and not in use"));
                }
            }
        }
        // The worker comes before the next table.
        MutexGuard::unlock_fair(worker);
        Ok(())
    }

    fn compare_places(&mut self, table: u32, places: LebPlaces, all: &mut HashSet<LebPlace>) {
        let mut own: Vec<u8> = Vec::new();
        for place in places.iter().flatten() {
            let LebPlace { ssd, leb } = *place;
            let Some(known) = self.core.ssds.get(ssd) else {
                self.report.find(format!("table {table}: SSD {ssd} is not in the cache"));
                continue;
            };
            if !(1..known.lebs).contains(&leb) {
                self.report.find(format!("table {table}: SSD {ssd} has no LEB {leb}"));
            }
            if !all.insert(*place) {
                self.report.find(format!("table {table}: another table has LEB {leb} of SSD {ssd} too"));
            }
            if own.contains(&ssd) {
                self.report.find(format!("table {table}: both copies are on SSD {ssd}"));
            }
            own.push(ssd);
        }
    }

    /// Compares the words of a table with the index and the counts.
    fn compare_table(&mut self, table: u32, content: &TableContent) -> Result<()> {
        let mut found = self.differences(table, content);
        for _ in 0..TRIES {
            if found.is_empty() {
                return Ok(());
            }
            // Marks that are not stored yet are the one difference between words and index.
            self.core.apply_marks()?;
            found = self.differences(table, content);
        }
        found.into_iter().for_each(|finding| self.report.find(finding));
        Ok(())
    }

    fn differences(&self, table: u32, content: &TableContent) -> Vec<String> {
        let mut found = Vec::new();
        let (mut live, mut dirty) = (0, 0);
        for index in 0..content.pages.len() as u32 {
            let page = self.core.memory.page_ref(table, index);
            let Some(word) = self.core.memory.page_word(page) else {
                found.push(format!("table {table}, page {index}: its word does not verify"));
                continue;
            };
            let newest = self.core.find(&self.core.index.lock(word.key), word.key);
            let is_newest = newest == Some(page) || planted!("cache: a check does not ask the index");
            live += u32::from(word.live);
            dirty += u32::from(word.live && word.dirty);
            if word.live != is_newest {
                let which = if word.live { "live, and not the newest version" } else { "dead, and the newest version" };
                found.push(format!("table {table}, page {index}: {which} of {}", name_of(word.key)));
            }
            if self.core.disks.get(word.key.disk()).is_none() && word.live {
                found.push(format!("table {table}, page {index}: disk {} is not in the cache", word.key.disk()));
            }
        }
        let state = self.core.memory.table_state(table);
        let counted = (state.live.load(Ordering::Acquire), state.dirty.load(Ordering::Acquire));
        if counted != (live, dirty) {
            found.push(format!(
                "table {table}: {} live and {} dirty pages are counted, and {live} and {dirty} are there",
                counted.0, counted.1
            ));
        }
        found
    }

    fn request(&mut self, member: Member, span: Span) -> std::result::Result<Vec<u8>, String> {
        let request = MemberRequest { member, op: Op::Read, span, buffer: vec![0; span.len as usize] };
        let token = self.members.submit(request);
        loop {
            let ends = self.members.collect(Wait::Forever).map_err(|error| error.to_string())?;
            if let Some(end) = ends.into_iter().find(|end| end.token == token) {
                return end.result.map(|()| end.buffer).map_err(|error| error.to_string());
            }
        }
    }

    fn read_copy(&mut self, table: u32, content: &TableContent, place: LebPlace) -> Result<()> {
        let Some(ssd) = self.core.ssds.get(place.ssd).filter(|ssd| ssd.is_readable()) else {
            self.report.copies_away += 1;
            return Ok(());
        };
        let layout = *self.core.memory.layout();
        let name = format!("SSD {}, LEB {}", place.ssd, place.leb);
        let header_bytes = u64::from(layout.header_pages()) * BLOCK;
        let leb_at = u64::from(place.leb) * u64::from(layout.leb_bytes);
        let span = Span::new(leb_at, header_bytes + content.pages.len() as u64 * BLOCK);
        match self.request(Member::Ssd(place.ssd), span) {
            Err(why) => self.report.find(format!("{name} (table {table}): {why}")),
            Ok(bytes) => {
                let (header, bytes) = bytes.split_at(header_bytes as usize);
                if let Some(what) = self.header_difference(header, content, place) {
                    self.report.find(format!("{name} (table {table}): its header {what}"));
                }
                for (index, (page, data)) in content.pages.iter().zip(bytes.chunks(BLOCK as usize)).enumerate() {
                    self.report.pages_read += 1;
                    if page.word.live && sum_of(data) != page.sum {
                        self.core.note_bad(self.core.memory.page_ref(table, index as u32), &ssd);
                        self.report.find(format!(
                            "{name} (table {table}), page {index}: bytes without the sum of {}",
                            name_of(page.word.key)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the difference between the `header` of the LEB `place` and its table, as both were at the seal.
    fn header_difference(&self, header: &[u8], content: &TableContent, place: LebPlace) -> Option<String> {
        if planted!("cache: a check does not compare headers") {
            return None;
        }
        let memory = &self.core.memory;
        let header = match decode_table(memory.salt, memory.layout(), &header[..memory.layout().table_bytes() as usize])
        {
            Ok(Some(header)) => header,
            Ok(None) => return Some("is empty".into()),
            Err(fault) => return Some(format!("is damaged: {fault}")),
        };
        let identity = |page: &TablePage| (page.word.key, page.sum);
        if header.sequence != content.sequence {
            Some(format!("has the sequence {}, and the table {}", header.sequence, content.sequence))
        } else if !header.places.contains(&Some(place)) {
            Some("names other LEBs".into())
        } else if !header.pages.iter().map(identity).eq(content.pages.iter().map(identity)) {
            Some("has other blocks or sums than the table".into())
        } else {
            None
        }
    }

    fn compare_with_disk(&mut self, table: u32, content: &TableContent) -> Result<()> {
        for (index, page) in (0..).zip(&content.pages) {
            let reference = self.core.memory.page_ref(table, index);
            let is_clean = |core: &CacheCore| core.memory.page_word(reference).is_some_and(|word| !word.dirty);
            if page.word.live && is_clean(self.core) {
                let place = format!("table {table}, page {index}");
                self.compare_block(&place, page.word.key, page.sum, reference);
            }
        }
        Ok(())
    }

    /// Compares a clean version with the disk's block, unless a client changed the block meanwhile.
    fn compare_block(&mut self, place: &str, key: BlockKey, sum: u32, page: PageRef) {
        let Some(disk) = self.core.disks.get(key.disk()).filter(|disk| disk.is_open()) else { return };
        let span = Span::new(disk.block_at(key.block()), BLOCK);
        let read = self.request(Member::Disk(key.disk()), span);
        let is_newest = {
            let shard = self.core.index.lock(key);
            shard.flight(key).is_none() && self.core.find(&shard, key) == Some(page) && !self.core.is_dirty(page)
        };
        self.report.blocks_compared += 1;
        match read {
            Ok(bytes) if sum_of(&bytes) != sum && is_newest => {
                self.report.find(format!("{place}: {} is clean, and the disk has other bytes", name_of(key)));
            }
            Ok(_) => {}
            Err(why) => self.report.find(format!("{} on the disk: {why}", name_of(key))),
        }
    }

    /// Compares the slots with DRAM and their data with their sums.
    fn check_slots(&mut self, options: &CacheCheckOptions) {
        let core = Arc::clone(self.core);
        let mut data = vec![0; BLOCK as usize];
        for (slot, state) in (0..).zip(&core.slots) {
            if !state.live.load(Ordering::Acquire) {
                continue;
            }
            let (page, key) = (PageRef::slot(slot), state.key());
            let sum = {
                // No other version of the block comes while its shard is locked.
                let shard = core.index.lock(key);
                if core.find(&shard, key) != Some(page) {
                    continue;
                }
                self.report.slots += 1;
                core.memory.load_slot_data(slot, 0, &mut data);
                let header = core.memory.load_slot_header(slot);
                let sum = header.filter(|header| {
                    header.epoch == core.buffers.epoch_of(slot) && header.word.key == key && !header.is_dead
                });
                sum.map(|header| header.sum).filter(|sum| sum_of(&data) == *sum)
            };
            match sum {
                None => {
                    self.report.find(format!("slot {slot}: not the version of {} that it should have", name_of(key)))
                }
                Some(sum) if options.against_disk && state.is_clean() => {
                    self.compare_block(&format!("slot {slot}"), key, sum, page);
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns the name of a block in findings.
fn name_of(key: BlockKey) -> String {
    format!("block {} of disk {}", key.block(), key.disk())
}

#[cfg(test)]
mod tests;
