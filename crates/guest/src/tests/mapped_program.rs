//! Programs that load and store in a region, through the kernel's own faults.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ferrite_crash::LyingDisk;
use ferrite_disk::{Disk, FileDisk, FileDiskOptions, Geometry, RamDisk};
use ferrite_memory::planted::plant;
use ferrite_pool::Freeze;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::region_rig::{PAGES, RegionFolder, StopAtEnd, has_regions, load, open_pool, store};
use super::seeded::TestChoices;
use crate::guest_region::RegionFaults;
use crate::guest_resize::resize;
use crate::{DirectPlane, GuestEngine, GuestRegion};

const DISK_BYTES: u64 = PAGES * PAGE + DISK_STAMP_BYTES;
const ROLE: &str = "FERRITE_GUEST_TEST_FOLDER";

/// Answers the faults of `program` in this thread, and makes room when accesses wait.
fn run(faults: &RegionFaults, program: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = StopAtEnd(&faults.region);
            program();
        });
        while let Some(fault) = faults.region.next_fault().expect("the kernel says") {
            faults.answer(fault);
        }
    });
}

fn word(engine: &GuestEngine, page: u64) -> u64 {
    let mut bytes = [0; PAGE as usize];
    engine.read(page * PAGE, &mut bytes).expect("read");
    let [first, last] =
        [0, PAGE as usize - 8].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word")));
    assert!(first == 0 && last == 0 || first == !last, "page {page}: {first:x} {last:x}");
    first
}

/// VP1, VP2, VP5: two threads store to four times as many pages as there are frames, and call nothing.
#[test]
fn vp1_vp2_vp5_programs_store_into_more_pages_than_there_are_frames() {
    if !has_regions() {
        return;
    }
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(DISK_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let opened = GuestRegion::open(&open_pool(&folder.pool_path()), "g", disk, || 4).expect("it opens");
    let last = std::thread::scope(|scope| {
        let region = opened.region();
        let program = |half: u64| {
            let (mut choices, mut last) = (TestChoices(half), HashMap::new());
            for value in 1..2500 {
                let page = half + 2 * choices.below(PAGES / 2);
                assert_eq!(load(region, page), last.get(&page).copied().unwrap_or(0), "page {page}");
                if choices.below(3) > 0 {
                    store(region, page, value);
                    last.insert(page, value);
                }
            }
            last
        };
        let halves = [0, 1].map(|half| scope.spawn(move || program(half)));
        halves.map(|half| half.join().expect("no panic"))
    });
    let counts = opened.engine().counts();
    assert!(counts.demoted_pages > 1000 && counts.reclaimed_pages > 1000, "{counts:?}");
    for page in 0..PAGES {
        let expected = last[page as usize % 2].get(&page).copied().unwrap_or(0);
        assert_eq!(word(opened.engine(), page), expected, "page {page}");
    }
    assert_eq!(opened.failure(), None);
}

/// VP1: frames that a resize added lie behind the others, and a run of pages crosses from those to these.
#[test]
fn vp1_a_run_of_pages_crosses_into_the_frames_of_a_resize() {
    if !has_regions() {
        return;
    }
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(DISK_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    resize(&open_pool(&folder.pool_path()), "g", 2 * CHUNK).expect("there is space");
    let faults = folder.open(disk, 99).expect("it opens");
    let pages = || 0..CHUNK / PAGE + 40;
    run(&faults, || pages().for_each(|page| store(&faults.region, page, page + 1)));
    assert!(pages().all(|page| word(&faults.engine, page) == page + 1));
}

/// Stores to scattered pages of a region that may have 16 mappings. Returns the number that it has. The thread that
/// answers has the bug `planted`.
fn scattered_mappings(planted: Option<&'static str>) -> usize {
    let _bug = planted.map(plant);
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(DISK_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let faults = folder.open(disk, 16).expect("it opens");
    std::thread::scope(|scope| {
        let faults = &faults;
        let storing = scope.spawn(|| {
            (0..PAGES).step_by(40).for_each(|page| store(&faults.region, page, page + 1));
        });
        scope.spawn(move || {
            let _stop = StopAtEnd(&faults.region);
            while !storing.is_finished() {
                faults.make_room().expect("nothing fails");
            }
        });
        while let Some(fault) = faults.region.next_fault().expect("the kernel says") {
            faults.answer(fault);
        }
    });
    let base = faults.region.base() as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let start = |line: &str| u64::from_str_radix(line.split('-').next().expect("a start"), 16).expect("an address");
    let inside = maps.lines().filter(|line| (base..base + PAGES * PAGE).contains(&start(line))).count();
    assert!((0..PAGES).step_by(40).all(|page| word(&faults.engine, page) == page + 1));
    inside
}

/// VP6: pages leave although frames are free, and no store is lost.
#[test]
fn vp6_a_region_keeps_to_its_number_of_mappings() {
    assert!(!has_regions() || (2..=17).contains(&scattered_mappings(None)));
}

#[test]
fn canary_vp6_mappings_without_a_limit_are_caught() {
    assert!(!has_regions() || scattered_mappings(Some("guest: the mappings of a region are not counted")) > 17);
}

/// Freezes the pool, lets a program store, and returns true if the pool's memory stayed as it was until the thaw. The
/// freezing thread has the bug `planted`.
fn stands_still(planted: Option<&'static str>) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(DISK_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let faults = folder.open(disk, 99).expect("it opens");
    let bytes = || std::fs::read(folder.pool_path()).expect("read");
    let mut is_same = false;
    run(&faults, || {
        store(&faults.region, 1, 10);
        let bug = planted.map(plant);
        faults.engine.freeze();
        drop(bug);
        let before = bytes();
        std::thread::scope(|scope| {
            let storing = scope.spawn(|| {
                store(&faults.region, 1, 11);
                store(&faults.region, 9, 12);
            });
            while !storing.is_finished() && faults.waiting_pages() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(load(&faults.region, 5), 0, "loads are answered");
            is_same = bytes() == before;
            faults.engine.thaw();
            while !storing.is_finished() {
                faults.make_room().expect("nothing fails");
            }
        });
    });
    assert_eq!([1, 9].map(|page| word(&faults.engine, page)), [11, 12]);
    is_same
}

#[test]
fn vp7_vp8_a_pool_that_stands_still_gets_no_store_of_a_program() {
    assert!(!has_regions() || stands_still(None));
}

#[test]
fn canary_vp8_pages_that_stay_mapped_are_caught() {
    assert!(!has_regions() || !stands_still(Some("guest: pages stay mapped while the pool stands still")));
}

/// VP7, VP8: a region opens, is stored to and closes while another thread freezes the pool all the time.
#[test]
fn vp7_vp8_a_region_opens_and_closes_while_the_pool_is_frozen() {
    if !has_regions() {
        return;
    }
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(DISK_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let pool = open_pool(&folder.pool_path());
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            for round in 1..=8 {
                let opened = GuestRegion::open(&pool, "g", Arc::clone(&disk), || 4).expect("it opens");
                (0..9).for_each(|page| store(opened.region(), page * 9, round));
            }
        });
        while !rounds.is_finished() {
            drop(pool.freeze());
        }
    });
    let engine = GuestEngine::open(&pool, "g", disk, Box::new(DirectPlane), || 4).expect("it opens");
    assert!((0..9).all(|page| word(&engine, page * 9) == 8));
}

/// VP5: a store waits while the disk fails, and is made when it works again.
#[test]
fn vp5_a_store_waits_while_the_disk_fails() {
    if !has_regions() {
        return;
    }
    let geometry = Geometry { volatile_cache: true, ..RamDisk::new(DISK_BYTES).geometry() };
    let lying = Arc::new(LyingDisk::new(geometry));
    let disk = Arc::clone(&lying) as Arc<dyn Disk>;
    let folder = RegionFolder::new();
    folder.create(&disk);
    let faults = folder.open(disk, 99).expect("it opens");
    lying.fail_from(lying.requests());
    run(&faults, || {
        std::thread::scope(|scope| {
            let storing = scope.spawn(|| store(&faults.region, 3, 33));
            while faults.waiting_pages() == 0 {
                std::thread::yield_now();
            }
            assert!(!storing.is_finished());
            lying.fail_nth(u64::MAX);
            while !storing.is_finished() {
                faults.make_room().expect("nothing fails");
            }
        });
    });
    assert_eq!(word(&faults.engine, 3), 33);
}

/// What another process runs until it is killed; in this one it does nothing. Notes each store behind it, in a file.
#[test]
fn play() {
    let Ok(folder) = std::env::var(ROLE) else { return };
    let folder = Path::new(&folder);
    let disk = FileDisk::open(&folder.join("disk"), &FileDiskOptions::default()).expect("it opens");
    let opened = GuestRegion::open(&open_pool(&folder.join("pool")), "g", Arc::new(disk), || 4).expect("it opens");
    let notes = File::options().write(true).open(folder.join("notes")).expect("it opens");
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (region, notes) = (opened.region(), &notes);
            scope.spawn(move || {
                let mut choices = TestChoices(half + u64::from(std::process::id()));
                loop {
                    let page = half + 2 * choices.below(PAGES / 2);
                    let value = load(region, page) + 1;
                    store(region, page, value);
                    notes.write_all_at(&value.to_le_bytes(), page * 8).expect("noted");
                }
            });
        }
    });
}

/// VR1: a process that stores in a region is killed, and every store that it noted is in the guest.
#[test]
fn vr1_a_kill_of_a_storing_program_loses_no_store() {
    if !has_regions() {
        return;
    }
    let folder = RegionFolder::new();
    let at = |name: &str| folder.path().join(name);
    for (name, bytes) in [("disk", DISK_BYTES), ("notes", PAGES * 8)] {
        File::create_new(at(name)).expect("a file").set_len(bytes).expect("sized");
    }
    let disk =
        || -> Arc<dyn Disk> { Arc::new(FileDisk::open(&at("disk"), &FileDiskOptions::default()).expect("it opens")) };
    folder.create(&disk());
    let noted = || -> Vec<u64> {
        let bytes = std::fs::read(at("notes")).expect("read");
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    };
    for round in 1..=2_u64 {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "tests::mapped_program::play", "--nocapture", "--test-threads=1"])
            .env(ROLE, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("another process");
        while noted().iter().sum::<u64>() < round * 3000 {
            assert!(process.try_wait().expect("a state").is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        let pool = open_pool(&folder.pool_path());
        let engine = GuestEngine::open(&pool, "g", disk(), Box::new(DirectPlane), || 4).expect("it opens");
        for (page, least) in (0..).zip(noted()) {
            // The last store of each thread may not be noted, and be half there.
            let found = word_or_half(&engine, page);
            assert!((least..=least + 1).contains(&found), "page {page} has {found}, and {least} was noted");
        }
        let stored = noted().iter().filter(|value| **value > 0).count() as u64;
        assert!(stored > CHUNK / PAGE, "batches ran: {stored} pages were stored to");
    }
}

/// Returns the first word of `page`, whose last word may be that of the version before.
fn word_or_half(engine: &GuestEngine, page: u64) -> u64 {
    let mut bytes = [0; PAGE as usize];
    engine.read(page * PAGE, &mut bytes).expect("read");
    let [first, last] =
        [0, PAGE as usize - 8].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word")));
    assert!(first == 0 && last == 0 || first == !last || first == !last + 1 || first == 1 && last == 0);
    first
}
