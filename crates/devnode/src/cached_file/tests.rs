use ferrite_crash::LyingDisk;
use ferrite_disk::{FaultDisk, FaultPlan, Geometry, RamDisk};
use ferrite_memory::planted::plant;

use super::*;

const ROOT: FileOwner = FileOwner { uid: 0, gid: 0 };
const PAGE: u64 = 4096;
const PAGES: u64 = 16;

/// Returns true if a crash keeps every page that an fsync had acknowledged, of pages whose writes fail at times (AF1,
/// AF2).
fn keeps_what_was_synced(seed: u64) -> bool {
    let geometry = Geometry {
        size: PAGES * PAGE,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: PAGE as u32,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    let lying = Arc::new(LyingDisk::new(geometry).deferring(seed));
    let faulty = Arc::new(FaultDisk::new(Arc::clone(&lying), FaultPlan::default()));
    let file = CachedFile::new(Arc::clone(&faulty) as _, FileState::new(ROOT));
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    // The byte of each page in the kernel's cache, and when fsync acknowledged last: a crash keeps that byte or a later
    // one.
    let (mut cached, mut synced) = ([0_u8; PAGES as usize], [0_u8; PAGES as usize]);
    for round in 1..200_u8 {
        let page = next(PAGES);
        let plan = if next(8) == 0 { "error=space@op=write" } else { "none" };
        faulty.faults().set(plan.parse().expect("a plan"));
        cached[page as usize] = round;
        // The kernel writes a page once, and forgets that it is dirty.
        let _ = file.store(page * PAGE, &[round; PAGE as usize]);
        if next(4) == 0 && file.persist().is_ok() {
            synced = cached;
        }
    }
    let after = lying.crash(seed).snapshot();
    synced.iter().zip(after.chunks(PAGE as usize)).all(|(least, page)| page.iter().all(|byte| byte >= least))
}

#[test]
fn af1_af2_a_crash_keeps_what_an_fsync_acknowledged() {
    for seed in 0..300 {
        assert!(keeps_what_was_synced(seed), "seed {seed}");
    }
}

#[test]
fn canary_af1_an_fsync_without_a_flush_of_the_disk_is_found() {
    let _bug = plant("devnode: an fsync of a file flushes no disk");
    assert!((0..300).any(|seed| !keeps_what_was_synced(seed)));
}

#[test]
fn canary_af2_an_fsync_that_forgets_a_failed_write_is_found() {
    let _bug = plant("devnode: a failed write of a file is forgotten");
    assert!((0..300).any(|seed| !keeps_what_was_synced(seed)));
}

fn file_of_ram() -> CachedFile {
    CachedFile::new(Arc::new(RamDisk::new(PAGES * PAGE)), FileState::new(ROOT))
}

/// AF2: fsync returns the error of the write until the bytes are written.
#[test]
fn af2_an_fsync_fails_until_the_bytes_are_written() {
    let faulty = Arc::new(FaultDisk::new(RamDisk::new(PAGES * PAGE), FaultPlan::default()));
    let file = CachedFile::new(Arc::clone(&faulty) as _, FileState::new(ROOT));
    let number = |result: Result<(), Errno>| result.map_err(i32::from);
    faulty.faults().set("error=space@op=write,span=4K-8K".parse().expect("a plan"));
    assert_eq!(number(file.store(0, &[1; 3 * PAGE as usize])), Err(libc::ENOSPC));
    file.store(8 * PAGE, &[1; PAGE as usize]).expect("another page is stored");
    (0..2).for_each(|_| assert_eq!(number(file.persist()), Err(libc::ENOSPC)));
    assert_eq!(file.state.lost().map(|(bytes, _)| bytes), Some(3 * PAGE));
    faulty.faults().set(FaultPlan::default());
    file.store(PAGE, &[2; 2 * PAGE as usize]).expect("stored");
    assert_eq!(number(file.persist()), Err(libc::ENOSPC), "the first page is lost still");
    file.store(0, &[2; PAGE as usize]).expect("stored");
    assert_eq!(number(file.persist()), Ok(()));
    faulty.faults().set("error@op=flush".parse().expect("a plan"));
    assert_eq!(number(file.persist()), Err(libc::EIO));
}

/// AF3: bytes behind the end are refused, and those before it are stored.
#[test]
fn af3_the_size_stays_and_other_attributes_change() {
    let file = file_of_ram();
    let size = PAGES * PAGE;
    let number = |result: Result<(), Errno>| result.map_err(i32::from);
    assert_eq!(number(file.change(None, None, None, Some(size))), Ok(()));
    assert_eq!(number(file.change(None, None, None, Some(0))), Err(libc::EPERM));
    file.change(Some(0o104_640), Some(7), None, None).expect("changed");
    let now = file.attributes();
    assert_eq!((now.size, now.perm, now.uid, now.gid), (size, 0o640, 7, 0), "no set-user-id bit");
    assert_eq!(number(file.store(size - PAGE, &[5; 2 * PAGE as usize])), Err(libc::EFBIG));
    let mut last = [0; PAGE as usize];
    file.disk.read(size - PAGE, &mut last).expect("read");
    assert_eq!(last, [5; PAGE as usize]);
    assert_eq!(number(file.persist()), Ok(()), "no byte of the disk is lost");
}

fn admits_one_writer() -> bool {
    let state = FileState::new(ROOT);
    let first = state.begin_writing(10).expect("no other");
    let second = state.begin_writing(11);
    let is_refused = second.is_none() && state.writer() == Some(10);
    second.into_iter().for_each(|handle| state.end_writing(handle));
    state.end_writing(FileHandle(0));
    state.end_writing(first);
    is_refused && state.begin_writing(12).is_some()
}

#[test]
fn af4_one_program_at_a_time_writes() {
    assert!(admits_one_writer());
}

#[test]
fn canary_af4_two_writers_are_found() {
    let _bug = plant("devnode: two programs write to a file");
    assert!(!admits_one_writer());
}
