//! The index and the requests under way (CA8).

use super::*;

fn key(block: u64) -> BlockKey {
    BlockKey::new(0, block)
}

#[test]
fn index_keeps_one_version_of_a_block() {
    let mut shard = IndexShard::default();
    let key_of = |page: PageRef| Some(key(u64::from(page.number()) / 2));
    assert_eq!(shard.replace(key(3), PageRef::page(6), key_of), None);
    assert_eq!(shard.replace(key(3), PageRef::page(7), key_of), Some(PageRef::page(6)));
    assert_eq!(shard.find(key(3), key_of), Some(PageRef::page(7)));
    assert!(!shard.remove(key(3), PageRef::page(6)), "it is not the newest");
    assert!(shard.remove(key(3), PageRef::page(7)));
    assert_eq!(shard.find(key(3), key_of), None);
}

#[test]
fn ca8_fill_that_was_overtaken_does_not_enter() {
    let mut shard = IndexShard::default();
    assert!(shard.begin_fill(key(1)));
    assert!(shard.begin_fill(key(1)), "a second reader");
    shard.overtake_fills(key(1));
    assert!(!shard.begin_fill(key(1)), "the change may not be on the disk yet");
    assert!(!shard.end_fill(key(1)));
    assert!(!shard.end_fill(key(1)));
    assert!(shard.flight(key(1)).is_none(), "nothing is under way");
    assert!(shard.begin_fill(key(1)));
    assert!(shard.end_fill(key(1)));
}

#[test]
fn ca8_fill_does_not_enter_while_the_disk_changes() {
    let mut shard = IndexShard::default();
    assert!(shard.begin_fill(key(1)));
    shard.overtake_fills(key(1));
    shard.change_flight(key(1), |flight| flight.arounds += 1);
    assert!(!shard.begin_fill(key(1)));
    assert!(!shard.end_fill(key(1)));
    shard.change_flight(key(1), |flight| flight.arounds -= 1);
    assert!(shard.flight(key(1)).is_none());
}

/// Otherwise a search in a shard asks for the block of every version that it passes.
#[test]
fn blocks_of_a_shard_differ_in_the_highest_bits_of_their_hashes() {
    let keys = (0..1 << 20).map(|block| BlockKey::new(0, block)).filter(|key| shard_of(*key) == 5);
    let hashes: Vec<u64> = keys.map(BlockKey::hash).collect();
    assert!((900..1150).contains(&hashes.len()), "{} of 1024", hashes.len());
    let tags: std::collections::HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
    assert!(tags.len() > 120, "{} of 128 tags", tags.len());
}

#[test]
fn a_batch_is_added_once_and_finds_a_block_with_two_versions() {
    let keys: Vec<BlockKey> = (0..5000).map(|block| BlockKey::new(1, block % 4999)).collect();
    let key_of = |page: PageRef| keys.get(page.number() as usize).copied();
    let (index, mut batch) = (CacheIndex::default(), IndexBatch::default());
    for number in 0..4999 {
        assert!(!batch.push(keys[number as usize], PageRef::page(number)), "the batch is not full");
    }
    assert_eq!(index.add(&mut batch, key_of), None);
    assert_eq!(index.add(&mut batch, key_of), None, "nothing is added again");
    for number in 0..4999 {
        let key = keys[number as usize];
        assert_eq!(index.lock(key).find(key, key_of), Some(PageRef::page(number)));
    }
    batch.push(keys[4999], PageRef::page(4999));
    assert_eq!(index.add(&mut batch, key_of), Some((keys[0], PageRef::page(4999))));
}
