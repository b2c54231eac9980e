//! Many threads, with the syncers at work: U1 to U4.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_disk::RamDisk;

use super::*;

/// A block whose every word is the same.
fn uniform(word: u64) -> Vec<u8> {
    word.to_le_bytes().repeat(512)
}

#[test]
fn u1_u2_threads_with_syncers_see_no_older_content_and_lose_none() {
    for batch in [false, true] {
        let disk = Arc::new(Buffered::new(RamDisk::new(BLOCKS * BLOCK), small(batch)).expect("good options"));
        let syncers = Syncers::start(Arc::clone(&disk)).expect("threads");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (disk, stop) = (&disk, &stop);
            let writers: Vec<_> = (0..3_u64).map(|writer| scope.spawn(move || write_and_look(disk, writer))).collect();
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    disk.flush().expect("flushed");
                }
            });
            writers.into_iter().for_each(|writer| writer.join().expect("writes"));
            stop.store(true, Ordering::Relaxed);
        });
        drop(syncers);
        let seen = read_all(&*disk);
        disk.flush().expect("flushed");
        assert_eq!(disk.unsaved_bytes(), 0);
        assert!(read_all(disk.inner()) == seen);
        for (block, part) in seen.chunks(4096).enumerate() {
            let last = if block % 5 == 4 { 0 } else { 2000 - 1 };
            assert!(*part == uniform(last), "batch {batch}, block {block}: {:?}", &part[..8]);
        }
    }
}

/// Writes every third block 2000 times, and zeroes some; each read finds what was written last.
fn write_and_look(disk: &Buffered<RamDisk>, writer: u64) {
    let mut found = vec![0; 4096];
    for round in 0..2000 {
        for block in (writer..BLOCKS).step_by(3).skip(round as usize % 3).step_by(3) {
            let before = if block % 5 == 4 { 0 } else { round };
            write_block(disk, block, before);
            disk.read(block * BLOCK, &mut found).expect("read");
            assert!(found == uniform(before), "block {block} round {round}");
        }
    }
    (writer..BLOCKS).step_by(3).for_each(|block| write_block(disk, block, if block % 5 == 4 { 0 } else { 1999 }));
}

fn write_block(disk: &Buffered<RamDisk>, block: u64, word: u64) {
    let span = Span::new(block * BLOCK, BLOCK);
    if word == 0 {
        disk.write(span.at, &uniform(77), Access::Cached).expect("written");
        disk.write_zeroes(span, Zeroing::default()).expect("zeroed");
    } else {
        disk.write(span.at, &uniform(word), Access::Cached).expect("written");
    }
}

#[test]
fn syncers_drain_by_themselves_and_end_when_dropped() {
    let disk = Arc::new(Buffered::new(RamDisk::new(BLOCKS * BLOCK), small(true)).expect("good options"));
    let syncers = Syncers::start(Arc::clone(&disk)).expect("threads");
    disk.write(0, &content(BLOCKS * 8, 1), Access::Cached).expect("written");
    while disk.buffers.iter().any(|buffer| buffer.ring.lock().used() > disk.high_pages) {
        std::thread::yield_now();
    }
    drop(syncers);
    assert_eq!(Arc::strong_count(&disk), 1, "a thread still runs");
}
