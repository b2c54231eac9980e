//! Whether a disk is as it was: a few of its clean cached blocks are compared with it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use ferrite_disk::Disk;
use ferrite_memory::planted;

use crate::cache_config::DiskConfig;
use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_memory::sum_of;
use crate::page_word::{BlockKey, PageRef};

/// The blocks that are compared at most.
const BLOCKS_MAX: usize = 64;

/// Clean blocks of a disk with their sums, by their hashes.
pub(crate) type ChosenBlocks = BTreeMap<u64, (BlockKey, u32)>;

/// Returns why `opened` is not the disk `known` as the cache knows it by `blocks`, or `None` if it is.
pub(crate) fn difference(blocks: &ChosenBlocks, known: &DiskConfig, opened: &dyn Disk) -> Option<String> {
    let data_at = known.data_at();
    let mut data = vec![0; BLOCK as usize];
    for (key, sum) in blocks.values() {
        if let Err(error) = opened.read(data_at + key.block() * BLOCK, &mut data) {
            return Some(format!("block {} cannot be read: {error}", key.block()));
        }
        if sum_of(&data) != *sum && !planted!("cache: a disk's fingerprint is not compared") {
            return Some(format!(
                "block {} is not as the cache has it: {} was written without the cache. `ferrite cache forget --clean` \
                 drops the clean content of the cache",
                key.block(),
                known.address
            ));
        }
    }
    None
}

/// Returns true if the hash of `key` is one of the smallest.
fn is_small(chosen: &ChosenBlocks, key: BlockKey) -> bool {
    chosen.len() < BLOCKS_MAX || chosen.last_key_value().is_some_and(|(last, _)| key.hash() < *last)
}

/// Returns clean blocks of disk `number`: those with the smallest hashes. `tables` are the valid tables, which stay so.
pub(crate) fn chosen_blocks(core: &CacheCore, tables: impl Iterator<Item = u32>, number: u8) -> ChosenBlocks {
    let mut chosen = ChosenBlocks::new();
    let choose = |chosen: &mut ChosenBlocks, key: BlockKey, page: PageRef| {
        if key.disk() != number || !is_small(chosen, key) || core.find(&core.index.lock(key), key) != Some(page) {
            return;
        }
        let sum = match page.is_slot() {
            true => core.memory.load_slot_header(page.number()).map(|header| header.sum),
            false => Some(core.memory.page_sum(page)),
        };
        chosen.extend(sum.map(|sum| (key.hash(), (key, sum))));
        if chosen.len() > BLOCKS_MAX {
            chosen.pop_last();
        }
    };
    for table in tables {
        let state = core.memory.table_state(table);
        if state.live.load(Ordering::Relaxed) == state.dirty.load(Ordering::Relaxed) {
            continue;
        }
        for (index, key) in (0..).zip(core.memory.unverified_keys(table)) {
            // Few hashes are small, so few words have to be verified.
            if key.disk() != number || !is_small(&chosen, key) {
                continue;
            }
            let page = core.memory.page_ref(table, index);
            if let Some(word) = core.memory.page_word(page).filter(|word| word.live && !word.dirty) {
                choose(&mut chosen, word.key, page);
            }
        }
    }
    for (slot, state) in (0..).zip(&core.slots) {
        if state.is_clean() {
            choose(&mut chosen, state.key(), PageRef::slot(slot));
        }
    }
    chosen
}
