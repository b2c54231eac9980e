//! A buffered disk of a pool: it stands still with it, and survives crashes of its memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ferrite_crash::{ExploreOptions, LyingMemory, Points, explore};
use ferrite_pool::{Format, Pool};

use crate::tests::{BOOT, Way, collisions, fresh, open, spec_of, ways};
use crate::{DiskSpec, create};

use super::*;

fn in_front(memory: Arc<LyingMemory>, way: Way) -> Arc<Buffered<Arc<BlockDisk>>> {
    Buffered::in_front_of(open(memory, way), small(true)).expect("good options")
}

#[test]
fn u7_a_pool_that_stands_still_has_all_that_was_acknowledged_and_writers_wait() {
    for way in ways() {
        let memory = fresh(way);
        memory.keep_trace(false);
        let disk = in_front(memory.clone(), way);
        disk.write(0, &content(64, 1), Access::Cached).expect("written");
        assert!(disk.unsaved_bytes() > 0);
        std::thread::scope(|scope| {
            let frozen = disk.inner().pool.freeze();
            assert_eq!(disk.unsaved_bytes(), 0);
            let writer = scope.spawn(|| disk.write(0, &content(64, 2), Access::Cached).expect("written"));
            let zeroer = scope.spawn(|| disk.write_zeroes(Span::new(40 * 512, 8192), Zeroing::default()));
            for _ in 0..100 {
                std::thread::yield_now();
                assert_eq!(disk.unsaved_bytes(), 0, "something was added meanwhile");
            }
            let copy = read_all(&*open(Arc::new(memory.kill()), way));
            assert!(copy[..64 * 512] == content(64, 1), "{way:?}");
            drop(frozen);
            writer.join().expect("it goes on");
            zeroer.join().expect("it goes on").expect("zeroed");
        });
        assert!(read_all(&*disk)[..32 * 512] == content(64, 2)[..32 * 512]);
    }
}

/// Thin disks that are larger than their pool, of which the first is written until it finds no more space, and its buffers
/// hold what has no place.
fn full(disks: usize, way: Way) -> (Vec<Arc<Buffered<Arc<BlockDisk>>>>, u64) {
    let memory = Arc::new(LyingMemory::new(20 << 20, way.model));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let open = |number: usize| {
        let name = format!("disk{number}");
        create(&pool, &name, &DiskSpec { size: 64 << 20, thin: true, ..spec_of(way) }).expect("created");
        let disk = BlockDisk::open(Arc::clone(&pool), &name, way.options).expect("opened");
        Buffered::in_front_of(disk, small(true)).expect("good options")
    };
    let disks: Vec<_> = (0..disks).map(open).collect();
    let write = |block: &u64| disks[0].write(block * BLOCK, &content(8, *block as u8), Access::Cached);
    let blocks = (0..).find(|block| write(block).is_err()).expect("it fills up");
    assert!(disks[0].unsaved_bytes() > 0 && disks[0].flush().is_err());
    (disks, blocks)
}

/// Freezes the pool of `disk` many times while a thread flushes without success. The test does not wait for a hung
/// thread.
fn freeze_often(disk: &Arc<Buffered<Arc<BlockDisk>>>) {
    let (done, is_done) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, is_over) = (Arc::clone(disk), Arc::clone(&stop));
    let flusher = std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            let _ = theirs.flush();
        }
    });
    let disk = Arc::clone(disk);
    std::thread::spawn(move || {
        (0..20).for_each(|_| drop(disk.inner().pool.freeze()));
        done.send(()).expect("heard");
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("who freezes and who flushes wait for each other");
    stop.store(true, Ordering::Relaxed);
    flusher.join().expect("ended");
}

#[test]
fn u7_a_pool_stands_still_though_a_buffer_finds_no_space_and_nothing_of_it_is_lost() {
    for way in ways().into_iter().step_by(8) {
        let (disks, blocks) = full(1, way);
        let disk = &disks[0];
        let unsaved = disk.unsaved_bytes();
        freeze_often(disk);
        assert!(disk.unsaved_bytes() == unsaved && disk.flush().is_err(), "{way:?}: a flush tells it still (U6)");
        disk.inner().trim(Span::new(0, 128 * BLOCK), Access::Cached).expect("trimmed");
        disk.flush().expect("there is room now");
        let mut found = vec![0; BLOCK as usize];
        for block in 128..blocks {
            disk.inner().read(block * BLOCK, &mut found).expect("read");
            assert!(found == content(8, block as u8), "{way:?}: block {block}");
        }
    }
}

/// U6: the same if both pages lie in one run, whichever thread writes it.
#[test]
fn u6_what_finds_no_space_keeps_no_overwrite_back() {
    for way in ways().into_iter().step_by(8) {
        let (disks, blocks) = full(1, way);
        let disk = &disks[0];
        std::thread::scope(|scope| {
            let flushes = || (0..100).all(|_| disk.flush().is_err());
            let other = scope.spawn(flushes);
            assert!(flushes() && other.join().expect("it ends"), "{way:?}: what another is refused is told");
        });
        disk.trim(Span::new((blocks - 6) * BLOCK, 6 * BLOCK), Access::Cached).expect("trimmed");
        let unsaved = disk.unsaved_bytes();
        let is_there = |block: u64, seed| {
            let mut found = vec![0; BLOCK as usize];
            disk.inner().read(block * BLOCK, &mut found).expect("read");
            found == content(8, seed)
        };
        let refused = (0..).find(|block| !is_there(*block, *block as u8)).expect("something is missing");
        let durable = refused - 24..refused;
        for block in durable.clone() {
            disk.write(block * BLOCK, &content(8, 99), Access::Cached).expect("overwritten");
        }
        assert!(unsaved > 0 && disk.flush().is_err(), "{way:?}: what has no space is told");
        assert!(durable.clone().all(|block| is_there(block, 99)), "{way:?}");
        assert_eq!(disk.unsaved_bytes(), unsaved, "{way:?}");
        disk.trim(Span::new(refused * BLOCK, (blocks - refused) * BLOCK), Access::Cached).expect("trimmed");
        disk.flush().expect("nothing is refused now");
    }
}

#[test]
fn u7_what_a_buffer_lacks_space_for_gets_what_others_spare_before_the_pool_stands_still() {
    for way in ways().into_iter().filter(|way| !way.options.in_place).step_by(8) {
        let (disks, _) = full(2, way);
        let [full, other] = &disks[..] else { unreachable!("two were asked for") };
        let has = full.unsaved_bytes();
        full.inner().trim(Span::new(0, 4 << 20), Access::Fua).expect("trimmed");
        let mut block = 0;
        while other.inner().write(block * BLOCK, &content(8, 9), Access::Cached).is_ok() {
            block += 1;
        }
        full.inner().trim(Span::new(4 << 20, 4 << 20), Access::Fua).expect("trimmed");
        other.write(block * BLOCK, &content(8, 9), Access::Cached).expect("into the buffer");
        freeze_often(other);
        assert!(has > 0 && other.unsaved_bytes() == 0, "{way:?}");
    }
}

/// U3 down to the memory: after any crash each block is as after some request since the last flush.
#[test]
fn u3_what_was_flushed_survives_every_crash_of_the_memory() {
    for way in ways().into_iter().filter(|way| !way.options.in_place).step_by(2) {
        let memory = fresh(way);
        let disk = in_front(memory.clone(), way);
        memory.forget_trace();
        let mut after = vec![vec![0; (BLOCKS * BLOCK) as usize]];
        for (i, op) in collisions().into_iter().enumerate() {
            op.run(&*disk);
            disk.step(i % 3).expect("nothing fails");
            let mut bytes = after[i].clone();
            op.apply(&mut bytes);
            after.push(bytes);
            if matches!(op, Op::Flush) {
                memory.mark(i as u64 + 1);
            }
        }
        let options = ExploreOptions {
            images_per_point_max: 4,
            samples_per_point: 4,
            points: Points::Sampled(16),
            ..ExploreOptions::default()
        };
        let report = explore(&memory, &options, |crash| {
            let found = read_all(&*open(Arc::new(crash.memory()), way));
            let durable = crash.last_mark().unwrap_or(0) as usize;
            let is_of_a_state = |(block, part): (usize, &[u8])| {
                after[durable..].iter().any(|bytes| bytes[block * 4096..][..4096] == *part)
            };
            if found.chunks(4096).enumerate().all(is_of_a_state) { Ok(()) } else { Err("a block is lost".into()) }
        });
        report.assert_clean();
    }
}

/// Where the time goes is counted for the disk and its buffers together.
#[test]
fn stages_are_counted_when_asked_for() {
    let counted = |stages: Option<fn() -> u64>, way: Way| {
        let disk = in_front(fresh(way), Way { options: crate::DiskOptions { stages, ..way.options }, ..way });
        disk.write(0, &content(16, 1), Access::Fua).expect("written");
        disk.write(0, &content(1, 1), Access::Fua).expect("written");
        read_all(&*disk);
        disk.inner().stages().map(|stages| stages.totals())
    };
    for way in ways() {
        assert_eq!(counted(None, way), None);
        let totals = counted(Some(|| 1), way).expect("counted");
        assert!(totals.total.count >= 4 && totals.buffer.count >= 3 && totals.copy.count >= 3, "{way:?} {totals:?}");
        assert!(totals.fence.count >= 1 && totals.lock.count >= 1 && totals.map.count >= 1, "{way:?} {totals:?}");
        assert_eq!(totals.checksum.count > 0, way.checksum, "{way:?} {totals:?}");
        assert_eq!(totals.verify.count > 0, way.options.verify, "{way:?} {totals:?}");
    }
}
