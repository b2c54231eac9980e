//! GV1: a thin disk gives back what it does not need, and loses nothing by it.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_crash::{CrashReport, explore, options};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES};
use ferrite_pool::{NewTag, Role, SpaceNeed, TagKind, Zone};

use super::*;

fn thin_ways() -> Vec<Way> {
    ways().into_iter().map(|way| Way { thin: true, ..way }).collect()
}

fn chunks(disk: &BlockDisk) -> u64 {
    let tag = disk.tag();
    tag.extents.iter().filter(|it| it.role == Role::DATA).map(|it| it.span().len).sum::<u64>() / CHUNK
}

/// A disk of three chunks, all that it holds in the one that is named.
fn in_chunk(chunk: u32, way: Way) -> (Arc<LyingMemory>, Arc<BlockDisk>) {
    const PAGES: u32 = CHUNK_PAGES as u32;
    let memory = fresh(way);
    let disk = open(memory.clone(), way);
    while chunks(&disk) < 3 {
        disk.grow_thin(u64::from(u32::MAX)).expect("there is room");
    }
    let others = [0..chunk * PAGES, (chunk + 1) * PAGES..3 * PAGES].map(|blocks| disk.free.withdraw(&blocks));
    disk.write(0, &content(BLOCKS * 8, 7), Access::Fua).expect("written");
    disk.flush().expect("flushed");
    others.iter().for_each(|blocks| disk.free.put_back(blocks));
    (memory, disk)
}

/// Crashes at every fence of giving the last chunk back: with what is in it, or empty where a disk is served in place. More
/// images of a point than are tried lie between whole blocks that are being moved: those are by seed.
fn explore_giving_back(way: Way) -> (Arc<BlockDisk>, CrashReport) {
    let (memory, disk) = in_chunk(if way.options.in_place { 0 } else { 2 }, way);
    memory.keep_trace(true);
    memory.forget_trace();
    assert!(disk.release_chunks().expect("sound"), "{way:?}");
    let report = explore(&memory, &options(64, 8), |crash| {
        let pool = Arc::new(Pool::open(Arc::new(crash.memory()), BOOT).map_err(|error| error.to_string())?.0);
        let disk = BlockDisk::open(pool, "disk0", way.options).map_err(|error| error.to_string())?;
        let (used, free) = disk.used_and_free_bytes();
        let is_same = read_all(&*disk) == content(BLOCKS * 8, 7);
        if is_same && used + free == chunks(&disk) * CHUNK { Ok(()) } else { Err("something was lost".into()) }
    });
    (disk, report)
}

#[test]
fn gv1_crash_seeded_giving_back_leaves_the_disk_as_it_was() {
    for way in thin_ways() {
        let (disk, report) = explore_giving_back(way);
        report.assert_clean();
        assert!(read_all(&*disk) == content(BLOCKS * 8, 7), "{way:?}");
        assert_eq!(chunks(&disk), 2, "{way:?}");
        assert!(!disk.release_chunks().expect("sound"), "{way:?}: it keeps what overwrites need");
    }
}

#[test]
fn canary_a_chunk_that_is_given_back_full_is_caught() {
    let bug = plant("block: chunks in use are given back");
    let (_, report) = explore_giving_back(thin_ways()[0]);
    drop(bug);
    report.expect_failure();
}

/// Writers that hold no lock may be storing to it (B6).
#[test]
fn gv1_what_is_written_in_place_is_not_moved() {
    for way in thin_ways().into_iter().filter(|way| way.options.in_place) {
        let (_memory, disk) = in_chunk(2, way);
        assert!(!disk.release_chunks().expect("sound"), "{way:?}");
        assert!(read_all(&*disk) == content(BLOCKS * 8, 7), "{way:?}");
    }
}

/// As `fstrim` in one guest, and a write in another.
#[test]
fn gv1_what_one_disk_trims_another_gets() {
    let way = thin_ways()[0];
    let memory = Arc::new(LyingMemory::new(20 << 20, way.model));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let [one, other] = ["one", "other"].map(|name| {
        create(&pool, name, &DiskSpec { size: 64 << 20, ..spec_of(way) }).expect("created");
        BlockDisk::open(Arc::clone(&pool), name, way.options).expect("opened")
    });
    let write = |disk: &BlockDisk, block: u64| disk.write(block * BLOCK, &content(8, block as u8), Access::Cached);
    let full = (0..).find(|block| write(&one, *block).is_err()).expect("it fills up");
    assert!(full > 1024 && write(&other, 0).is_err(), "{full} blocks fit");
    let is_kept = |block: &u64| block.is_multiple_of(50);
    (0..full).filter(|block| !is_kept(block)).for_each(|block| {
        one.trim(Span::new(block * BLOCK, BLOCK), Access::Cached).expect("trimmed");
    });
    let theirs = (0..).find(|block| write(&other, *block).is_err()).expect("it fills up");
    assert!(theirs + 1024 > full, "{theirs} of {full}");
    let mut found = vec![0; BLOCK as usize];
    for block in 0..full {
        one.read(block * BLOCK, &mut found).expect("read");
        let expected = if is_kept(&block) { content(8, block as u8) } else { vec![0; BLOCK as usize] };
        assert!(found == expected, "{block}");
    }
    other.trim(Span::new(0, 64 << 20), Access::Cached).expect("trimmed");
    write(&one, 1).expect("and it comes back");
}

/// Its list of extents does not fit the tag, and there is no page for a new one.
#[test]
fn gv1_a_disk_of_many_extents_gives_to_a_full_pool() {
    let way = thin_ways()[0];
    let memory = Arc::new(LyingMemory::new(56 << 20, way.model));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let disks = ["one", "other"].map(|name| {
        create(&pool, name, &DiskSpec { size: 64 << 20, ..spec_of(way) }).expect("created");
        BlockDisk::open(Arc::clone(&pool), name, way.options).expect("opened")
    });
    let write = |disk: &BlockDisk, block: u64| disk.write(block * BLOCK, &content(8, 1), Access::Cached);
    let full = (0..).find(|block| disks.iter().any(|disk| write(disk, *block).is_err())).expect("it fills up");
    let add = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: pool.usage().free_bytes }];
    let rest = NewTag { name: "rest", kind: TagKind::BYTES, size: 0, attributes: [0; 64], needs: &add };
    pool.create_tag(&rest, |_| Ok(())).expect("created");
    let one = &disks[0];
    one.trim(Span::new((full - 700) * BLOCK, 700 * BLOCK), Access::Cached).expect("trimmed");
    assert!(pool.usage().free_bytes == 0 && one.tag().extents.len() > 10, "{:?}", one.tag());
    assert!(one.release_chunks().expect("it has one"));
    assert!(one.tag().extents.len() > 8 && pool.usage().free_bytes >= CHUNK);
}

/// Of which the one that is resized may be the one that has it.
#[test]
fn gv1_a_disk_that_is_resized_gets_what_others_spare() {
    let way = thin_ways()[0];
    let memory = Arc::new(LyingMemory::new(32 << 20, way.model));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let [thin, whole] = [true, false].map(|thin| {
        let name = if thin { "thin" } else { "whole" };
        create(&pool, name, &DiskSpec { size: 2 << 20, thin, ..spec_of(way) }).expect("created");
        BlockDisk::open(Arc::clone(&pool), name, way.options).expect("opened")
    });
    let takes_all = || {
        while pool.usage().free_bytes > 2 * CHUNK {
            thin.grow_thin(u64::from(u32::MAX)).expect("there is room");
        }
    };
    takes_all();
    whole.resize(12 << 20).expect("the other one has what it lacks");
    takes_all();
    thin.resize(2 << 30).expect("it has what it lacks itself");
    assert!(whole.resize(1 << 30).is_err(), "nobody has that much");
}

#[test]
fn gv1_who_reads_and_writes_meanwhile_notices_nothing() {
    for way in [thin_ways()[0], Way { checksum: true, ..thin_ways()[0] }] {
        let (_memory, disk) = in_chunk(2, way);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (disk, stop) = (&disk, &stop);
                scope.spawn(move || {
                    let (first, mut seed, mut found) = (thread * BLOCKS / 2, 0, vec![0; BLOCK as usize]);
                    while !stop.load(Ordering::Relaxed) {
                        for block in first..first + BLOCKS / 2 {
                            disk.write(block * BLOCK, &content(8, seed), Access::Cached).expect("written");
                            disk.read(block * BLOCK, &mut found).expect("read");
                            assert!(found == content(8, seed), "block {block} is another's");
                        }
                        seed = seed.wrapping_add(1);
                    }
                });
            }
            // Nothing may fail before the threads are stopped, because the test waits for them. Blocks that are being
            // written are not given back, so the pool may fill up.
            let mut given = Vec::new();
            for _ in 0..100 {
                given.push(disk.release_chunks());
                let _ = disk.grow_thin(1024);
            }
            stop.store(true, Ordering::Relaxed);
            let given: Vec<bool> = given.into_iter().map(|given| given.expect("sound")).collect();
            assert!(given.contains(&true), "nothing was given back");
        });
    }
}
