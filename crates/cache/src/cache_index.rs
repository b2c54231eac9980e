//! The index in DRAM: from a block to its newest version, and the requests that later changes must not pass.

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};

use crate::page_word::{BlockKey, PageRef};

/// The number of shards, each behind a lock of its own.
const SHARDS: usize = 1024;

/// The number of versions in a full [`IndexBatch`], which takes 16 bytes for each.
const BATCH_MAX: usize = 1 << 20;

/// The index. A shard's lock is held for one block's copy and fence at most, never over I/O (CA16).
pub(crate) struct CacheIndex {
    shards: Box<[Mutex<IndexShard>]>,
}

/// The blocks of one shard.
#[derive(Default)]
pub(crate) struct IndexShard {
    places: HashTable<PageRef>,
    flights: Vec<BlockFlight>,
}

/// Versions of blocks that wait to be added to an index, by shard. Adding a whole shard's at once leaves its table in the
/// processor's cache.
pub(crate) struct IndexBatch {
    shards: Box<[Vec<(BlockKey, PageRef)>]>,
    len: usize,
}

impl Default for IndexBatch {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Vec::new()).collect(), len: 0 }
    }
}

impl IndexBatch {
    /// Adds `page`, a version of `key`. Returns true if the batch is full.
    pub fn push(&mut self, key: BlockKey, page: PageRef) -> bool {
        self.shards[shard_of(key)].push((key, page));
        self.len += 1;
        self.len >= BATCH_MAX
    }
}

/// Requests to the disk under way for one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFlight {
    key: BlockKey,
    /// Reads of the disk whose result may enter the cache.
    fills: u32,
    /// True if the block changed since the first of these reads began: none of them enters the cache (CA8).
    is_overtaken: bool,
    /// Changes of the disk around the cache.
    pub arounds: u32,
    /// Writes of the disk through the cache.
    pub throughs: u32,
    /// True if such writes overlapped, or met a destage: their order on the disk is not known.
    pub is_overlapped: bool,
    /// True while the destager writes the block.
    pub is_destaged: bool,
}

impl BlockFlight {
    fn is_over(&self) -> bool {
        self.fills == 0 && self.arounds == 0 && self.throughs == 0 && !self.is_destaged
    }
}

impl Default for CacheIndex {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl CacheIndex {
    /// Locks the shard of `key`.
    pub fn lock(&self, key: BlockKey) -> MutexGuard<'_, IndexShard> {
        self.shards[shard_of(key)].lock()
    }

    /// Returns true if no thread has locked a shard.
    #[cfg(test)]
    pub fn is_unlocked(&self) -> bool {
        self.shards.iter().all(|shard| !shard.is_locked())
    }

    /// Makes room for so many blocks in all, so that no table grows while they are added.
    pub fn reserve(&self, blocks: usize, key_of: impl Fn(PageRef) -> Option<BlockKey>) {
        for shard in &self.shards {
            shard.lock().places.reserve(blocks / SHARDS * 9 / 8, |known| key_of(*known).map_or(0, BlockKey::hash));
        }
    }

    /// Adds the versions of `batch` and empties it. Returns a block that has two versions, and the second of them.
    pub fn add(
        &self,
        batch: &mut IndexBatch,
        key_of: impl Fn(PageRef) -> Option<BlockKey>,
    ) -> Option<(BlockKey, PageRef)> {
        batch.len = 0;
        let mut twice = None;
        for (shard, pages) in self.shards.iter().zip(&mut batch.shards) {
            let mut shard = shard.lock();
            for (key, page) in pages.drain(..) {
                if shard.replace(key, page, &key_of).is_some() {
                    twice = Some((key, page));
                }
            }
        }
        twice
    }
}

/// Returns the shard of `key`, by bits of the hash that a table does not use: it compares the highest seven before it asks
/// for a block, and the lowest say where to look.
fn shard_of(key: BlockKey) -> usize {
    (key.hash() >> 40) as usize % SHARDS
}

impl IndexShard {
    /// Returns the newest version of `key`. `key_of` gives the block of a version.
    pub fn find(&self, key: BlockKey, key_of: impl Fn(PageRef) -> Option<BlockKey>) -> Option<PageRef> {
        self.places.find(key.hash(), |page| key_of(*page) == Some(key)).copied()
    }

    /// Makes `page` the newest version of `key`. Returns the version before.
    pub fn replace(
        &mut self,
        key: BlockKey,
        page: PageRef,
        key_of: impl Fn(PageRef) -> Option<BlockKey>,
    ) -> Option<PageRef> {
        let is_key = |known: &PageRef| *known != page && key_of(*known) == Some(key);
        if let Some(known) = self.places.find_mut(key.hash(), is_key) {
            return Some(std::mem::replace(known, page));
        }
        let hash_of = |known: &PageRef| key_of(*known).map_or(0, BlockKey::hash);
        self.places.insert_unique(key.hash(), page, hash_of);
        None
    }

    /// Removes `page`, the newest version of `key`. Returns false if `page` is not.
    pub fn remove(&mut self, key: BlockKey, page: PageRef) -> bool {
        self.places.find_entry(key.hash(), |known| *known == page).map(|entry| entry.remove()).is_ok()
    }

    /// Returns the requests under way for `key`.
    pub fn flight(&self, key: BlockKey) -> Option<&BlockFlight> {
        self.flights.iter().find(|flight| flight.key == key)
    }

    /// Changes the requests under way for `key`.
    pub fn change_flight<T>(&mut self, key: BlockKey, change: impl FnOnce(&mut BlockFlight) -> T) -> T {
        let index = self.flights.iter().position(|flight| flight.key == key).unwrap_or_else(|| {
            let (fills, arounds, throughs) = (0, 0, 0);
            let (is_overtaken, is_overlapped, is_destaged) = (false, false, false);
            self.flights.push(BlockFlight { key, fills, is_overtaken, arounds, throughs, is_overlapped, is_destaged });
            self.flights.len() - 1
        });
        let result = change(&mut self.flights[index]);
        if self.flights[index].is_over() {
            self.flights.swap_remove(index);
        }
        result
    }

    /// Begins a read of the disk whose result may enter the cache. Returns false if it must not: then nothing begins.
    pub fn begin_fill(&mut self, key: BlockKey) -> bool {
        if self.flight(key).is_some_and(|flight| flight.is_overtaken || flight.arounds > 0) {
            return false;
        }
        self.change_flight(key, |flight| flight.fills += 1);
        true
    }

    /// Ends such a read. Returns true if its result may enter the cache (CA8).
    pub fn end_fill(&mut self, key: BlockKey) -> bool {
        self.change_flight(key, |flight| {
            flight.fills -= 1;
            let may_enter = !flight.is_overtaken && flight.arounds == 0;
            flight.is_overtaken &= flight.fills > 0;
            may_enter
        })
    }

    /// Notes that `key` changes: no read of the disk that is under way enters the cache (CA8).
    pub fn overtake_fills(&mut self, key: BlockKey) {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.key == key && flight.fills > 0) {
            flight.is_overtaken = true;
        }
    }
}

#[cfg(test)]
mod tests;
