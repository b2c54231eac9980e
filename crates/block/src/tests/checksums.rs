//! Checksums: every flipped byte is found and reported with its block, and a rewritten block is whole again.

use ferrite_memory::Error;
use ferrite_pool::check::{self, Severity, TagOwners};
use ferrite_pool::{Role, Stream};

use crate::DiskOwner;

use super::*;

fn checked_ways() -> Vec<Way> {
    ways().into_iter().filter(|way| way.checksum).collect()
}

/// A disk full of distinct blocks, closed; and where each lies in the pool.
fn full(way: Way) -> (Arc<LyingMemory>, Vec<u64>) {
    let memory = fresh(way);
    memory.keep_trace(false);
    let disk = open(memory.clone(), way);
    disk.write(0, &content(BLOCKS * 8, 1), Access::Fua).expect("written");
    let tag = disk.tag();
    let (map, data) = (Stream::new(&tag.extents, Role::MAP), Stream::new(&tag.extents, Role::DATA));
    let place = |index: u64| {
        let word = memory.load_word(map.locate(index * 8).expect("there").at);
        data.locate(((word & 0xffff_ffff) - 1) * BLOCK).expect("there").at
    };
    ((memory.clone()), (0..BLOCKS).map(place).collect())
}

fn flip(memory: &LyingMemory, at: u64, bits: u8) {
    let mut byte = [0];
    memory.load(at, &mut byte);
    memory.store(at, &[byte[0] ^ bits], Scheme::Nt);
    memory.fence();
}

fn is_damaged<T>(result: Result<T, Error>, index: u64) -> bool {
    matches!(result, Err(Error::Damaged(at)) if at == index * BLOCK)
}

/// Reads of all sizes that touch block `index`, and writes of a part of it, say that it is damaged.
fn assert_damaged(disk: &BlockDisk, index: u64) {
    let (at, len) = (index * BLOCK, BLOCK as usize);
    let read = |at, len| disk.read(at, &mut vec![0; len]);
    assert!(is_damaged(read(at, len), index) && is_damaged(read(at + 512, 512), index));
    assert!(is_damaged(read(0, (BLOCKS * BLOCK) as usize), index));
    if index > 0 {
        assert!(is_damaged(read(at - 1024, 2048), index));
        assert!(read(0, (index * BLOCK) as usize).is_ok());
    }
    assert!(is_damaged(disk.write(at + 512, &[1; 512], Access::Cached), index));
    assert!(is_damaged(read(at, len), index), "a refused write changed something");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_flipped_byte_is_found_also_after_reopening(
        index in 0..BLOCKS, byte in 0..BLOCK, bits in 1..=255_u8, way in 0..checked_ways().len(), open_before: bool
    ) {
        let way = checked_ways()[way];
        let (memory, places) = full(way);
        let before = open_before.then(|| open(memory.clone(), way));
        flip(&memory, places[index as usize] + byte, bits);
        if let Some(disk) = before {
            assert_damaged(&disk, index);
        }
        let disk = open(memory.clone(), way);
        assert_damaged(&disk, index);
        if bits % 2 == 0 {
            disk.write(index * BLOCK, &content(8, 9), Access::Fua).expect("a whole block is written");
        } else {
            disk.trim(Span::new(index * BLOCK, BLOCK), Access::Fua).expect("trimmed");
        }
        let mut whole = content(BLOCKS * 8, 1);
        let healed = if bits % 2 == 0 { content(8, 9) } else { vec![0; BLOCK as usize] };
        whole[(index * BLOCK) as usize..][..BLOCK as usize].copy_from_slice(&healed);
        prop_assert!(read_all(&*disk) == whole);
        drop(disk);
        prop_assert!(read_all(&*open(memory, way)) == whole, "after reopening");
    }
}

/// B7: a write that is refused for a damaged block at its end damages none before it.
#[test]
fn a_write_that_meets_a_damaged_block_leaves_the_others_readable() {
    for way in checked_ways() {
        let (memory, places) = full(way);
        let disk = open(memory.clone(), way);
        flip(&memory, places[6] + 9, 1);
        let (at, bytes) = (3 * BLOCK + 512, content(3 * 8, 7));
        assert!(is_damaged(disk.write(at, &bytes, Access::Fua), 6), "{way:?}");
        let mut before = vec![0; 6 * BLOCK as usize];
        disk.read(0, &mut before).expect("blocks that were whole are");
        assert!(before == content(BLOCKS * 8, 1)[..before.len()], "{way:?}: a refused write changed something");
    }
}

#[test]
fn each_byte_of_a_block_counts() {
    let way = checked_ways()[0];
    let (memory, places) = full(way);
    let disk = open(memory.clone(), way);
    for byte in 0..BLOCK {
        flip(&memory, places[5] + byte, 1 << (byte % 8));
        assert!(is_damaged(disk.read(5 * BLOCK, &mut [0; 4096]), 5), "byte {byte}");
        flip(&memory, places[5] + byte, 1 << (byte % 8));
        assert!(disk.read(5 * BLOCK, &mut [0; 4096]).is_ok(), "byte {byte}");
    }
}

#[test]
fn a_flipped_checksum_is_found() {
    let way = checked_ways()[0];
    let (memory, _) = full(way);
    let map = open(memory.clone(), way).tag().extents.iter().find(|it| it.role == Role::MAP).expect("there").span().at;
    for bit in 32..64 {
        let word = memory.load_word(map + 8);
        memory.store_word(map + 8, word ^ 1 << bit);
        assert_damaged(&open(memory.clone(), way), 1);
        memory.store_word(map + 8, word);
    }
}

#[test]
fn check_tells_which_block_and_which_byte_and_a_repair_does_not_hide_it() {
    let way = checked_ways()[0];
    let (memory, places) = full(way);
    let mut owners = TagOwners::default();
    owners.register(Box::new(DiskOwner));
    let dynamic: Arc<dyn Memory> = memory.clone();
    assert!(check::check(&dynamic, &owners, &mut |_| ()).is_sound());
    flip(&memory, places[3] + 77, 4);
    flip(&memory, places[20], 128);
    let errors = |report: check::PoolCheckReport| -> Vec<(String, Option<u64>)> {
        let errors = report.findings.into_iter().filter(|it| it.severity == Severity::Error);
        errors.map(|it| (it.what, it.at)).collect()
    };
    let found = errors(check::check(&dynamic, &owners, &mut |_| ()));
    assert_eq!(found.iter().map(|it| it.1).collect::<Vec<_>>(), [Some(places[3]), Some(places[20])]);
    assert!(found[0].0.contains("block 3 of the disk (its bytes 12288 to 16384) is damaged"), "{found:?}");
    let repaired = errors(check::repair(&dynamic, &owners, &[], &mut |_| ()).expect("repaired"));
    assert_eq!(repaired, found, "a repair cannot know what was there");
    assert_damaged(&open(memory, way), 3);
}

#[test]
fn a_disk_made_without_checksums_keeps_none() {
    for way in ways().into_iter().filter(|way| !way.checksum) {
        let memory = fresh(way);
        let disk = open(memory.clone(), way);
        disk.write(0, &content(16, 1), Access::Fua).expect("written");
        let map = disk.tag().extents.iter().find(|it| it.role == Role::MAP).expect("there").span().at;
        assert_eq!(memory.load_word(map) >> 32, 0);
    }
}
