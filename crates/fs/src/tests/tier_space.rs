//! Space of a file system with a tier: what is free can be had, also while the pool is full.

use ferrite_crash::{LyingMemory, Model};
use ferrite_pool::layout::{CHUNK, PAGE};

use super::support::{assert_sound, content, new_memory, run_steps};
use super::tier_crashes::{self, SEGMENTS, new_world};
use super::tiers::{TieredWorld, add, away_pages, bytes, make, open, ssd};
use super::{Bug, plant};
use crate::format::segment::SEGMENT_PAGES;
use crate::{Allocate, Error, FileSystem, Ino};

const MIB: u64 = 1 << 20;

/// Writes `len` bytes to a file, one MiB at a time, until there is no space. Returns how many went in.
fn write(fs: &FileSystem, file: Ino, len: u64) -> u64 {
    let part = bytes(file.0, MIB as usize);
    let mut at = 0;
    while at < len {
        match fs.write(file, at, &part[..MIB.min(len - at) as usize]) {
            Ok(written) => at += written as u64,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    at
}

/// Refuses other content than that of [`write`].
fn assert_written(fs: &FileSystem, file: Ino, len: u64) {
    let (part, mut found) = (bytes(file.0, MIB as usize), vec![0; MIB as usize]);
    for at in (0..len).step_by(MIB as usize) {
        let read = fs.read(file, at, &mut found).expect("read");
        assert!(found[..read] == part[..read], "file {} at {at}", file.0);
    }
}

/// TI9: free slots that lie between others can be had, because cleaning fills segments up from sparser ones.
#[test]
fn ti9_holes_in_nearly_full_segments_can_be_had() {
    let world = TieredWorld::new(16 * CHUNK, 24 << 20);
    let fs = world.open();
    let (first, second) = (make(&fs, "first"), make(&fs, "second"));
    let len = write(&fs, first, u64::MAX / 2);
    // A fifth of each segment.
    for at in (0..len).step_by(20 * PAGE as usize) {
        fs.allocate(first, at..at + 4 * PAGE, Allocate::Punch).expect("punched");
    }
    run_steps(&fs);
    let free = fs.statfs().free_bytes;
    assert!(free > len / 6, "{free} of {len} bytes");
    let written = write(&fs, second, free);
    assert!(written * 100 >= free * 95, "{written} of {free} bytes");
    assert_written(&fs, second, written);
    assert_sound(&fs);
}

/// An allocation that is larger than the pool goes to the SSD, or is refused before anything is allocated.
#[test]
fn ti9_an_allocation_may_be_larger_than_the_pool() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    let free = fs.statfs().free_bytes;
    assert!(free > 60 * MIB);
    for how in [Allocate::Grow, Allocate::KeepSize] {
        assert!(fs.allocate(file, 0..200 * MIB, how).expect_err("no room").is_no_space());
    }
    assert!(fs.allocate(file, 0..60 * MIB, Allocate::KeepSize).expect_err("these pages stay").is_no_space());
    assert_eq!((fs.statfs().free_bytes, fs.getattr(file).expect("there").size), (free, 0));
    fs.allocate(file, 0..60 * MIB, Allocate::Grow).expect("the SSD has room");
    assert!(away_pages(&fs) > 0);
    assert!(content(&fs, file).expect("read") == vec![0; 60 << 20]);
    assert_eq!(write(&fs, file, 60 * MIB), 60 * MIB, "it was allocated");
    assert_written(&fs, file, 60 * MIB);
    // Pages behind an end stay, and others leave for them.
    let behind = make(&fs, "behind");
    fs.unlink(Ino::ROOT, b"file").expect("removed");
    let other = make(&fs, "other");
    assert_eq!(write(&fs, other, 28 * MIB), 28 * MIB);
    fs.allocate(behind, 0..16 * MIB, Allocate::KeepSize).expect("the other file leaves");
    assert_written(&fs, other, 28 * MIB);
    assert_sound(&fs);
}

/// A file without a name that is open leaves the pool as others do, and its space is free when it is closed.
#[test]
fn ti9_an_unlinked_file_may_be_larger_than_the_pool() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let (file, free) = (make(&fs, "file"), fs.statfs().free_bytes);
    fs.hold(file).expect("there");
    fs.unlink(Ino::ROOT, b"file").expect("removed");
    assert_eq!(write(&fs, file, 60 * MIB), 60 * MIB);
    assert!(away_pages(&fs) > 0);
    assert_written(&fs, file, 60 * MIB);
    fs.release(file, 1);
    run_steps(&fs);
    assert_eq!(away_pages(&fs), 0);
    assert!(fs.statfs().free_bytes + CHUNK >= free);
    assert_sound(&fs);
}

/// If sizes wait for an fsync, a file that is being written leaves the pool all the same.
#[test]
fn ti9_a_file_whose_size_waits_may_be_larger_than_the_pool() {
    let (memory, ssd): (std::sync::Arc<LyingMemory>, _) = (new_memory(Model::FILE, 16 * CHUNK), ssd(64 << 20));
    add(&memory, &ssd);
    let fs = open(&memory, None, Some(&ssd)).expect("it opens");
    memory.keep_trace(false);
    let file = make(&fs, "file");
    assert_eq!(write(&fs, file, 50 * MIB), 50 * MIB);
    assert_written(&fs, file, 50 * MIB);
    assert_sound(&fs);
}

/// Returns by how many pages an SSD that cannot be written to lessens what is free.
fn room_that_a_dead_ssd_ends(bug: Option<Bug>) -> u64 {
    let world = new_world(Model::MAPPED);
    let fs = tier_crashes::open(&world).expect("it opens");
    assert_eq!(write(&fs, make(&fs, "file"), MIB), MIB);
    plant(bug);
    let before = fs.statfs().free_bytes;
    world.disk(0).fail_from(world.disk(0).requests());
    assert!(fs.drain_tier().is_err());
    let after = fs.statfs().free_bytes;
    plant(None);
    (before - after) / PAGE
}

#[test]
fn ti9_a_dead_ssd_has_no_free_space() {
    assert_eq!(room_that_a_dead_ssd_ends(None), (SEGMENTS - 2) * SEGMENT_PAGES);
}

#[test]
fn canary_free_space_of_a_dead_ssd_is_found() {
    assert_eq!(room_that_a_dead_ssd_ends(Some(Bug::DeadRoom)), 3 * SEGMENT_PAGES);
}

/// A write of half as many bytes as clean pages have waits for no SSD: it evicts them.
#[test]
fn no_write_waits_for_an_ssd_while_clean_pages_are_left() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let (old, new) = (make(&fs, "old"), make(&fs, "new"));
    assert_eq!(write(&fs, old, 40 * MIB), 40 * MIB);
    (0..1000).for_each(|_| run_steps(&fs));
    let before = fs.tier_stats().expect("a tier");
    let clean = before.pages.clean * PAGE;
    assert!(clean >= 2 * MIB, "{before:?}");
    assert_eq!(write(&fs, new, clean / 2), clean / 2);
    let after = fs.tier_stats().expect("a tier");
    assert_eq!((after.writes, after.reads), (before.writes, before.reads));
}
