//! Rules of the tier that show without a crash, each with a planted bug that breaks it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_crash::{LyingMemory, Model};
use ferrite_disk::Access;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::append_checksums::{append, lent};
use super::crash::client;
use super::support::{assert_sound, content, new_memory, options};
use super::tier_crashes::{self, new_world};
use super::tiers::{self, TieredWorld, bytes, make, send_away};
use super::{Bug, plant, stop_at};
use crate::client::known_end::KnownEnd;
use crate::tier::{evict, step_tier};
use crate::{Allocate, FsOptions, Ino, Time};

/// Overwrites a file after its pages were chosen to be evicted. Returns true if it has its new content then.
fn keeps_what_is_stored_amid_eviction(bug: Option<Bug>) -> bool {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let (file, len) = (make(&fs, "file"), 40 * PAGE as usize);
    fs.write(file, 0, &bytes(1, len)).expect("written");
    fs.drain_tier().expect("drained");
    let (amid, is_done) = (Arc::clone(&fs), Cell::new(false));
    let stop = stop_at("fs: victims taken", move || {
        if !is_done.replace(true) {
            assert_eq!(amid.write(file, 0, &bytes(2, len)).expect("written"), len);
        }
    });
    plant(bug);
    let slots = fs.slots.as_ref().expect("a tier");
    while evict::evict(&fs, slots, &fs.tier).expect("evicted") > 0 {}
    plant(None);
    drop(stop);
    content(&fs, file).expect("read") == bytes(2, len)
}

#[test]
fn ti5_a_page_that_is_stored_to_amid_eviction_stays() {
    assert!(keeps_what_is_stored_amid_eviction(None));
}

#[test]
fn canary_a_victim_without_a_second_look_is_found() {
    assert!(!keeps_what_is_stored_amid_eviction(Some(Bug::UnlookedVictim)));
}

/// Evicts pages that the list of clean pages has twice. Returns true if each is freed once.
fn frees_a_victim_once(bug: Option<Bug>) -> bool {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let (file, len) = (make(&fs, "file"), 4 * PAGE as usize);
    fs.write(file, 0, &bytes(1, len)).expect("written");
    fs.drain_tier().expect("drained");
    let slots = fs.slots.as_ref().expect("a tier");
    let mut listed = slots.take_victims(8).pages;
    listed.extend(slots.take_victims(8).pages);
    assert_eq!(listed.len(), 4, "of the file");
    listed.iter().chain(&listed).for_each(|page| slots.keep_clean(*page));
    plant(bug);
    let evicted = evict::evict(&fs, slots, &fs.tier).expect("evicted");
    plant(None);
    evicted == 4
}

#[test]
fn ti5_a_page_that_is_listed_twice_is_freed_once() {
    assert!(frees_a_victim_once(None));
}

#[test]
fn canary_a_victim_that_is_freed_twice_is_found() {
    assert!(!frees_a_victim_once(Some(Bug::DoubleVictim)));
}

/// Sends a file of one page away that has pages behind its end. Returns how many pages are away.
fn away_of_a_file_with_pages_behind_its_end(bug: Option<Bug>) -> u64 {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, PAGE as usize)).expect("written");
    fs.allocate(file, 0..8 * PAGE, Allocate::KeepSize).expect("room");
    plant(bug);
    send_away(&fs);
    plant(None);
    fs.slots.as_ref().expect("a tier").named()
}

#[test]
fn ti8_pages_behind_the_end_stay() {
    assert_eq!(away_of_a_file_with_pages_behind_its_end(None), 1);
}

#[test]
fn canary_pages_behind_the_end_that_leave_are_found() {
    assert_eq!(away_of_a_file_with_pages_behind_its_end(Some(Bug::AwayBehindEnd)), 8);
}

/// Sends a file away whose size rests on its last bytes. Returns how many pages are away, and the content behind a crash.
fn away_with_the_bytes_of_a_size(bug: Option<Bug>) -> (u64, Option<Vec<u8>>) {
    let memory = new_memory(Model::MAPPED, 16 * CHUNK);
    let (fs, file) = lent(&memory);
    let (end, mut at) = (KnownEnd::new(), PAGE);
    let one = client(&fs, &end);
    append(&one, &mut at, &[2; 64], false);
    append(&one, &mut at, &[3; 64], true);
    let crash = |memory: &LyingMemory| Arc::new(LyingMemory::from_image(&memory.snapshot(), Model::MAPPED));
    let (memory, ssd) = (crash(&memory), tiers::ssd(8 << 20));
    tiers::add(&memory, &ssd);
    let open = |memory| tiers::open(memory, None, Some(&ssd)).expect("it opens");
    let fs = open(&memory);
    assert!(fs.load(file).expect("there").needs_commit(), "its size rests on its last lines");
    plant(bug);
    send_away(&fs);
    plant(None);
    let away = fs.slots.as_ref().expect("a tier").named();
    (away, content(&open(&crash(&memory)), file).ok())
}

#[test]
fn ti8_a_size_rests_on_no_bytes_that_are_away() {
    let all = [&[1; PAGE as usize][..], &[2; 64], &[3; 64]].concat();
    assert_eq!(away_with_the_bytes_of_a_size(None), (2, Some(all)));
}

#[test]
fn canary_bytes_of_a_size_that_leave_are_found() {
    let all = [&[1; PAGE as usize][..], &[2; 64], &[3; 64]].concat();
    let (away, found) = away_with_the_bytes_of_a_size(Some(Bug::AwaySizeBytes));
    assert!(away == 2 && found != Some(all), "{away} pages are away");
}

/// Damages a page on the SSD. Returns true if a read of it fails.
fn refuses_a_damaged_page(bug: Option<Bug>) -> bool {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, 4 * PAGE as usize)).expect("written");
    send_away(&fs);
    let place = fs.tier_upkeep().away_place(file, 2).expect("read").expect("it is away");
    world.ssd.disk.write(place.offset, &[1; 512], Access::Cached).expect("written");
    plant(bug);
    let read = fs.read(file, 2 * PAGE, &mut [0; PAGE as usize]);
    plant(None);
    read.is_err()
}

#[test]
fn ti7_what_an_ssd_returns_is_compared_with_its_check() {
    assert!(refuses_a_damaged_page(None));
}

#[test]
fn canary_a_damaged_page_that_is_believed_is_found() {
    assert!(!refuses_a_damaged_page(Some(Bug::UncheckedSlot)));
}

/// Lets all requests to the SSD fail while pages have to go there. Returns how many requests were made, and whether the
/// caller of a drain was told.
fn requests_to_a_dead_ssd(bug: Option<Bug>) -> (u64, bool) {
    let world = new_world(Model::MAPPED);
    let fs = tier_crashes::open(&world).expect("it opens");
    fs.write(make(&fs, "file"), 0, &bytes(1, 300 * PAGE as usize)).expect("written");
    let before = world.disk(0).requests();
    world.disk(0).fail_from(before);
    plant(bug);
    let is_told = fs.drain_tier().is_err();
    (0..50).for_each(|_| while step_tier(&fs, &fs.tier).expect("nothing else fails") {});
    plant(None);
    (world.disk(0).requests() - before, is_told)
}

/// TI12: after three segments that could not be written no more is tried, and the reason is known.
#[test]
fn ti12_writes_to_a_dead_ssd_rest_after_three_failures() {
    assert_eq!(requests_to_a_dead_ssd(None), (3, true));
}

#[test]
fn canary_endless_writes_to_a_dead_ssd_are_found() {
    let (requests, is_told) = requests_to_a_dead_ssd(Some(Bug::EndlessFailures));
    assert!(requests > 3 && !is_told, "{requests} requests");
}

/// Makes every request of the SSD fail for ten minutes, and asserts that the tier makes few requests. Returns true if the
/// tier writes again two minutes later.
fn goes_on_when_the_ssd_does(bug: Option<Bug>) -> bool {
    let world = new_world(Model::MAPPED);
    let seconds = Arc::new(AtomicI64::new(1));
    let now = Arc::clone(&seconds);
    let clock = Arc::new(move || Time(now.load(Ordering::Relaxed) * 1_000_000_000));
    let options = FsOptions { clock, ..options(None) };
    let fs = tier_crashes::open_with(&world, options).expect("it opens");
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, 300 * PAGE as usize)).expect("written");
    let slots = fs.slots.as_ref().expect("a tier");
    let pass_minutes = |minutes: u64| {
        for _ in 0..minutes * 60 {
            seconds.fetch_add(1, Ordering::Relaxed);
            // Trims fail, too.
            while step_tier(&fs, &fs.tier).unwrap_or(false) {}
            let _ = fs.drain_tier();
        }
    };
    let before = world.disk(0).requests();
    world.disk(0).fail_from(before);
    plant(bug);
    pass_minutes(10);
    let requests = world.disk(0).requests() - before;
    assert!(requests < 40 && slots.failures.why().is_some(), "{requests} requests");
    world.disk(0).fail_from(u64::MAX);
    pass_minutes(2);
    plant(None);
    let goes_on = slots.failures.why().is_none();
    if goes_on {
        send_away(&fs);
        assert!(slots.named() > 0);
    }
    assert!(content(&fs, file).expect("read") == bytes(1, 300 * PAGE as usize));
    assert_sound(&fs);
    goes_on
}

/// TI12: what failed is tried again, one segment a minute, and goes on once that succeeds.
#[test]
fn ti12_writes_go_on_when_the_ssd_does() {
    assert!(goes_on_when_the_ssd_does(None));
}

#[test]
fn canary_writes_that_rest_for_ever_are_found() {
    assert!(!goes_on_when_the_ssd_does(Some(Bug::EndlessRest)));
}

/// TI12: what failed is tried again once a slot was freed.
#[test]
fn ti12_writes_go_on_once_a_slot_was_freed() {
    let world = new_world(Model::MAPPED);
    let fs = tier_crashes::open(&world).expect("it opens");
    let (gone, kept) = (make(&fs, "gone"), make(&fs, "kept"));
    fs.write(gone, 0, &bytes(1, 40 * PAGE as usize)).expect("written");
    send_away(&fs);
    fs.write(kept, 0, &bytes(2, 40 * PAGE as usize)).expect("written");
    world.disk(0).fail_from(world.disk(0).requests());
    assert!(fs.drain_tier().is_err());
    let slots = fs.slots.as_ref().expect("a tier");
    assert!(slots.failures.why().is_some());
    world.disk(0).fail_from(u64::MAX);
    fs.unlink(Ino::ROOT, b"gone").expect("removed");
    super::support::run_steps(&fs);
    assert!(slots.failures.why().is_none());
    send_away(&fs);
    assert!(slots.named() > 0 && content(&fs, kept).expect("read") == bytes(2, 40 * PAGE as usize));
    assert_sound(&fs);
}
