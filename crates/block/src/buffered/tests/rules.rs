//! Watermarks, batches, bounds, and what is refused.

use super::*;

fn one(pages: u64, batch: bool) -> BufferOptions {
    BufferOptions { buffer_bytes: pages * BLOCK, batch, ..BufferOptions::default() }
}

fn step_to_end(disk: &Buffered<LyingDisk>) {
    let end = (0..100).find(|_| disk.step(0).expect("nothing fails") == SyncerStep::Nothing);
    assert!(end.is_some(), "it makes no end");
}

fn write(disk: &Buffered<LyingDisk>, block: u64, seed: u8) {
    disk.write(block * BLOCK, &content(8, seed), Access::Cached).expect("written");
}

#[test]
fn buffers_that_no_memory_holds_are_refused() {
    let refused = Buffered::new(LyingDisk::new(geometry()), BufferOptions { buffers: 2, ..one(1 << 50, true) });
    let message = refused.err().expect("refused").to_string();
    assert!(message.contains("write buffers: 2 of 4611686018427387904 bytes"), "{message}");
}

#[test]
fn a_buffer_is_drained_from_its_high_watermark_to_its_low_one() {
    let disk = over_lies(one(10, true));
    (0..7).for_each(|block| write(&disk, block, 1));
    assert_eq!(disk.step(0).expect("nothing to do"), SyncerStep::Nothing);
    assert_eq!((disk.inner().requests(), disk.unsaved_bytes()), (0, 7 * BLOCK));
    write(&disk, 7, 1);
    assert_eq!(disk.step(0).expect("planned"), SyncerStep::Planned);
    assert_eq!(disk.step(0).expect("one run"), SyncerStep::Wrote { pages: 7 });
    assert_eq!(disk.unsaved_bytes(), 8 * BLOCK);
    assert_eq!(disk.step(0).expect("retired"), SyncerStep::Retired);
    assert_eq!((disk.step(0).expect("idle"), disk.unsaved_bytes()), (SyncerStep::Nothing, BLOCK));
}

#[test]
fn batches_are_sorted_and_neighbours_are_written_together() {
    for (batch, writes) in [(true, 4), (false, 9)] {
        let disk = over_lies(one(9, batch));
        [5, 0, 2, 20, 1, 19, 3, 21, 23].into_iter().for_each(|block| write(&disk, block, block as u8));
        step_to_end(&disk);
        assert_eq!((disk.inner().requests(), disk.unsaved_bytes()), (writes, 0), "batch {batch}");
        let left = disk.inner().snapshot();
        for block in [5, 0, 2, 20, 1, 19, 3, 21, 23] {
            assert!(left[(block * BLOCK) as usize..][..BLOCK as usize] == content(8, block as u8));
        }
    }
}

#[test]
fn u4_a_full_buffer_under_a_stopped_syncer_is_drained_by_its_writer_and_stays_bounded() {
    let disk = over_lies(small(true));
    for round in 0..20_u8 {
        disk.write(0, &content(BLOCKS * 8, round), Access::Cached).expect("written");
        assert!(disk.unsaved_bytes() <= 3 * 5 * BLOCK);
        assert!(read_all(&disk) == content(BLOCKS * 8, round));
    }
}

#[test]
fn u2_a_page_that_is_being_written_keeps_its_content_and_a_newer_one_follows() {
    let disk = over_lies(one(4, false));
    (0..3).for_each(|block| write(&disk, block, 1));
    assert_eq!(disk.step(0).expect("planned"), SyncerStep::Planned);
    write(&disk, 0, 2);
    assert_eq!(disk.step(0).expect("written"), SyncerStep::Wrote { pages: 1 });
    assert!(disk.inner().snapshot()[..4096] == content(8, 1));
    assert!(read_all(&disk)[..4096] == content(8, 2));
    disk.flush().expect("flushed");
    assert!(disk.inner().snapshot()[..4096] == content(8, 2));
}

#[test]
fn u5_a_zeroed_page_is_not_written_after_its_zeroing() {
    let disk = over_lies(one(4, true));
    (0..3).for_each(|block| write(&disk, block, 1));
    assert_eq!(disk.step(0).expect("planned"), SyncerStep::Planned);
    write(&disk, 1, 2);
    disk.write_zeroes(Span::new(BLOCK, BLOCK), Zeroing::default()).expect("zeroed");
    disk.flush().expect("flushed");
    assert!(disk.inner().snapshot()[4096..8192].iter().all(|byte| *byte == 0));
    assert!(disk.inner().snapshot()[8192..12288] == content(8, 1));
}

#[test]
fn addresses_go_round_robin_by_strides() {
    let disk = over_lies(small(true));
    let numbers = (0..8).map(|block| {
        let before: Vec<_> = disk.buffers.iter().map(|buffer| buffer.ring.lock().dirty()).collect();
        write(&disk, block, 1);
        let after = disk.buffers.iter().map(|buffer| buffer.ring.lock().dirty());
        before.iter().zip(after).position(|(before, after)| after > *before).expect("somewhere")
    });
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2, 0, 0]);
}

#[test]
fn d1_what_the_disk_refuses_is_refused_before_it_is_buffered() {
    let disk = over_lies(small(true));
    let size = BLOCKS * BLOCK;
    for (at, len) in [(size, 512), (size - 512, 1024), (1, 512), (0, 513)] {
        assert!(matches!(disk.write(at, &vec![1; len], Access::Cached), Err(Error::OutOfRange { .. })));
        assert!(disk.read(at, &mut vec![1; len]).is_err());
        assert!(disk.trim(Span::new(at, len as u64), Access::Cached).is_err());
        assert!(disk.write_zeroes(Span::new(at, len as u64), Zeroing::default()).is_err());
    }
    assert_eq!(disk.unsaved_bytes(), 0);
    let read_only = LyingDisk::new(Geometry { read_only: true, ..geometry() });
    let disk = Buffered::new(read_only, small(true)).expect("good options");
    assert!(matches!(disk.write(0, &[0; 512], Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.trim(Span::new(0, 4096), Access::Cached), Err(Error::ReadOnly)));
}

/// The end of the disk need not be the end of a page.
#[test]
fn the_last_sectors_of_an_odd_disk_are_buffered_too() {
    let size = 3 * BLOCK + 1024;
    let disk = Buffered::new(LyingDisk::new(Geometry { size, ..geometry() }), small(true)).expect("good options");
    disk.write(3 * BLOCK, &content(2, 5), Access::Cached).expect("written");
    disk.write(3 * BLOCK + 512, &content(1, 6), Access::Cached).expect("written");
    let mut expected = content(2, 5);
    expected[512..].copy_from_slice(&content(1, 6));
    assert!(read_all(&disk)[3 * BLOCK as usize..] == expected);
    disk.write_zeroes(Span::new(2 * BLOCK + 512, BLOCK), Zeroing::default()).expect("zeroed");
    disk.flush().expect("flushed");
    expected[..512].fill(0);
    assert!(disk.inner().snapshot()[3 * BLOCK as usize..] == expected);
    assert_eq!(disk.geometry().size, size);
}

#[test]
fn a_buffered_disk_has_a_volatile_cache_and_says_what_it_would_lose() {
    let disk = Buffered::new(LyingDisk::new(Geometry { volatile_cache: false, ..geometry() }), small(true));
    let disk = disk.expect("good options");
    assert!(disk.geometry().volatile_cache);
    disk.write(0, &content(24, 1), Access::Cached).expect("written");
    assert_eq!(disk.unsaved_bytes(), 3 * BLOCK);
    disk.write(0, &content(1, 2), Access::Fua).expect("written");
    assert_eq!(disk.unsaved_bytes(), 0);
    assert!(disk.inner().crash(1).snapshot()[..512] == content(1, 2));
}

#[test]
fn block_status_knows_what_is_buffered() {
    let disk = over_lies(small(true));
    disk.write(0, &content(8, 1), Access::Cached).expect("written");
    let runs = disk.extents(Span::new(0, BLOCKS * BLOCK)).expect("told");
    assert!(!runs[0].hole && disk.unsaved_bytes() == 0);
}
