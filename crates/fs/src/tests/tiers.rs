//! Files that are larger than the pool: their pages go to SSDs and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_crash::{LyingMemory, Model};
use ferrite_disk::{Access, Disk, RamDisk, StatsDisk};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Format, Freeze, Pool};

use super::support::{BOOT, NAME, assert_sound, beside, content, new, new_memory, options, resize, run_steps};
use super::{Bug, plant};
use crate::store::tier_members::{TierDisk, TierOpening};
use crate::tier::{clean_segments, destage, evict, make_room};
use crate::{Allocate, DataMode, FileKind, FileSystem, FsClock, FsOptions, FsSpec, Ino, TierPolicy, Time};

/// An SSD of `bytes` bytes.
pub fn ssd(bytes: u64) -> TierDisk {
    let disk = Arc::new(StatsDisk::new(RamDisk::new(bytes)));
    TierDisk { uuid: *b"the uuid of one.", address: "ssd".into(), disk }
}

/// Gives the file system in `memory` a tier.
pub fn add(memory: &Arc<LyingMemory>, ssd: &TierDisk) {
    let pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
    FileSystem::add_tier(&pool, NAME, std::slice::from_ref(ssd), None, 5).expect("added");
    pool.close().expect("it closes");
}

/// Opens the file system in `memory`, with the SSD if it has one.
pub fn open(
    memory: &Arc<LyingMemory>,
    data: Option<DataMode>,
    ssd: Option<&TierDisk>,
) -> crate::Result<Arc<FileSystem>> {
    let pool = Pool::open(memory.clone(), BOOT)?.0;
    let disk = |_: &str| ssd.map(|ssd| Arc::clone(&ssd.disk)).ok_or_else(|| "there is none".into());
    let opening = TierOpening { open: &disk, nonce: 6 };
    FileSystem::open_tiered(Arc::new(pool), NAME, options(data), &opening)
}

/// Does a piece of the tier's work, by number, if there is a tier.
pub fn step(fs: &FileSystem, what: u8) {
    let Some(slots) = &fs.slots else { return };
    match what {
        0 => fs.drain_tier().expect("drained"),
        1 => _ = evict::evict(fs, slots, &fs.tier).expect("evicted"),
        2 => _ = clean_segments::clean(fs, slots, &fs.tier).expect("cleaned"),
        _ => _ = destage::destage(fs, slots, &fs.tier, destage::Fill::Whole).expect("destaged"),
    }
}

/// A file system with a tier of one SSD.
pub struct TieredWorld {
    pub memory: Arc<LyingMemory>,
    pub ssd: TierDisk,
}

impl TieredWorld {
    pub fn new(pool_bytes: u64, ssd_bytes: u64) -> Self {
        let (memory, ssd) = (new_memory(Model::MAPPED, pool_bytes), ssd(ssd_bytes));
        add(&memory, &ssd);
        Self { memory, ssd }
    }

    pub fn open(&self) -> Arc<FileSystem> {
        open(&self.memory, None, Some(&self.ssd)).expect("it opens")
    }
}

/// Returns bytes that no other seed has.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Makes an empty file.
pub fn make(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino
}

/// Sends all that may go to the SSD.
pub fn send_away(fs: &FileSystem) {
    fs.drain_tier().expect("drained");
    let slots = fs.slots.as_ref().expect("a tier");
    while evict::evict(fs, slots, &fs.tier).expect("evicted") > 0 {}
}

/// Returns how many pages are on SSDs only.
pub fn away_pages(fs: &FileSystem) -> u64 {
    fs.slots.as_ref().expect("a tier").named()
}

#[test]
fn what_is_away_is_read_as_it_was_written() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let (file, small) = (make(&fs, "file"), make(&fs, "small"));
    let (want, few) = (bytes(1, 3_000_000), bytes(2, 700));
    fs.write(file, 0, &want).expect("written");
    fs.write(small, 0, &few).expect("written");
    send_away(&fs);
    assert_eq!(away_pages(&fs), 3_000_000_u64.div_ceil(PAGE) + 1);
    assert_sound(&fs);
    assert!(content(&fs, file).expect("read") == want && content(&fs, small).expect("read") == few);
    drop(fs);
    let fs = world.open();
    assert!(content(&fs, file).expect("read") == want && content(&fs, small).expect("read") == few);
    assert_sound(&fs);
}

/// Every change of a file whose pages are away.
#[test]
fn what_is_away_is_changed_as_anything_else() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    let mut want = bytes(1, 400_000);
    fs.write(file, 0, &want).expect("written");
    let mut change = |work: &dyn Fn(&mut Vec<u8>)| {
        send_away(&fs);
        work(&mut want);
        assert!(content(&fs, file).expect("read") == want);
        assert_sound(&fs);
    };
    change(&|want| {
        fs.write(file, 5000, &bytes(2, 100)).expect("a part of a page");
        want[5000..5100].copy_from_slice(&bytes(2, 100));
    });
    change(&|want| {
        fs.write(file, 20_000, &bytes(3, 50_000)).expect("many pages, and parts at both ends");
        want[20_000..70_000].copy_from_slice(&bytes(3, 50_000));
    });
    change(&|want| {
        fs.append(file, &bytes(4, 10_000)).expect("behind the end");
        want.extend(bytes(4, 10_000));
    });
    change(&|want| {
        resize(&fs, file, 123_456).expect("cut in a page");
        resize(&fs, file, 300_000).expect("grown");
        want.truncate(123_456);
        want.resize(300_000, 0);
    });
    change(&|want| {
        fs.allocate(file, 30_000..90_000, Allocate::Punch).expect("punched");
        want[30_000..90_000].fill(0);
    });
    change(&|want| {
        fs.allocate(file, 91_000..93_000, Allocate::Zero).expect("zeroed");
        want[91_000..93_000].fill(0);
    });
    change(&|want| {
        fs.write(file, 1_000_000, b"far").expect("behind a hole");
        want.resize(1_000_000, 0);
        want.extend(b"far");
    });
    send_away(&fs);
    fs.unlink(Ino::ROOT, b"file").expect("removed");
    run_steps(&fs);
    assert_eq!(away_pages(&fs), 0);
    assert_sound(&fs);
}

/// The file system takes four times what its pool has room for, and gives it back.
#[test]
fn a_file_system_is_larger_than_its_pool() {
    let world = TieredWorld::new(16 * CHUNK, 160 << 20);
    let fs = world.open();
    let files: Vec<Ino> = (0..64).map(|number| make(&fs, &format!("file{number}"))).collect();
    for (number, file) in files.iter().enumerate() {
        fs.write(*file, 0, &bytes(number as u64, 2 << 20)).expect("written");
    }
    for (number, file) in files.iter().enumerate() {
        assert!(content(&fs, *file).expect("read") == bytes(number as u64, 2 << 20), "file {number}");
    }
    assert_sound(&fs);
    drop(fs);
    let fs = world.open();
    for (number, file) in files.iter().enumerate() {
        assert!(content(&fs, *file).expect("read") == bytes(number as u64, 2 << 20), "file {number}");
        fs.unlink(Ino::ROOT, format!("file{number}").as_bytes()).expect("removed");
    }
    run_steps(&fs);
    assert_eq!(away_pages(&fs), 0);
    assert_sound(&fs);
    _ = make_room(&fs, &fs.tier);
}

/// A file system in mapped memory of `pool_bytes`, with a tier on `ssd` and without superpages.
pub fn mapped_fs(pool_bytes: u64, ssd: &TierDisk, clock: FsClock) -> Arc<FileSystem> {
    let options = MapOptions { guard: Guard::None, read_only: false, name: "tiers".into(), ..MapOptions::default() };
    let memory = Arc::new(Mapped::anonymous(pool_bytes, &options).expect("memory"));
    Pool::create(&*memory, &Format { uuid: [3; 16], boot_id: BOOT }).expect("a new pool");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("it opens").0);
    let spec = FsSpec { super_threshold_bytes: None, uid: 0, gid: 0, mode: 0o755, hash_seed: 5, now: Time(1) };
    FileSystem::create(&pool, NAME, &spec).expect("room");
    FileSystem::add_tier(&pool, NAME, std::slice::from_ref(ssd), None, 5).expect("added");
    let options = FsOptions { data: None, read_only: false, clock };
    FileSystem::open_tiered(pool, NAME, options, &TierOpening { open: &|_| Ok(Arc::clone(&ssd.disk)), nonce: 6 })
        .expect("it opens")
}

/// TI4, TI5: beside threads that store without a lock, pages go to the SSD and come back, and none is ever older than it
/// was.
#[test]
fn ti4_ti5_no_store_is_lost_while_pages_come_and_go() {
    const PAGES: u64 = 300;
    // A clock that stands still lets overwrites go without a lock.
    let fs = mapped_fs(16 * CHUNK, &ssd(8 << 20), Arc::new(|| Time(5_000_000)));
    let file = make(&fs, "file");
    fs.write(file, 0, &[0; (PAGES * PAGE) as usize]).expect("written");
    let (fs, away) = (&fs, AtomicU64::new(0));
    let turn = AtomicU64::new(0);
    let come_and_go = || {
        step(fs, [3, 1, 1, 2, 0, 1][turn.fetch_add(1, Ordering::Relaxed) as usize % 6]);
        away.fetch_max(away_pages(fs), Ordering::Relaxed);
    };
    beside(&[&come_and_go], || {
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                scope.spawn(move || {
                    let mut versions = [0_u64; PAGES as usize];
                    for round in 1..6000_u64 {
                        // Each thread has every other page, and mostly few of them.
                        let spread = if round % 4 == 0 { PAGES / 2 } else { 20 };
                        let page = round * 7919 % spread * 2 + thread;
                        let mut found = [0; 8];
                        fs.read(file, page * PAGE + 80, &mut found).expect("it reads");
                        assert_eq!(u64::from_le_bytes(found), versions[page as usize], "page {page} in round {round}");
                        versions[page as usize] = round;
                        let whole = round.to_le_bytes().repeat(PAGE as usize / 8);
                        let from = if round % 3 == 0 { &whole[..] } else { &whole[..160] };
                        fs.write(file, page * PAGE, from).expect("written");
                    }
                });
            }
        });
    });
    assert!(away.into_inner() > 0, "no page was ever away");
    assert_sound(fs);
}

/// TI11: a pool or an SSD that is not the last one is refused in words, and nothing is written to it.
#[test]
fn ti11_an_older_or_another_ssd_is_refused() {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    fs.write(make(&fs, "file"), 0, &bytes(1, 100_000)).expect("written");
    send_away(&fs);
    drop(fs);
    let copy = |disk: &dyn Disk| {
        let (mut all, copied) = (vec![0; 8 << 20], RamDisk::new(8 << 20));
        disk.read(0, &mut all).expect("read");
        copied.write(0, &all, Access::Cached).expect("written");
        Arc::new(copied) as Arc<dyn Disk>
    };
    let (old_memory, old_disk) = (Arc::new(world.memory.kill()), copy(&*world.ssd.disk));
    drop(world.open());
    let rows: [(&Arc<LyingMemory>, Arc<dyn Disk>, &str); 4] = [
        (&world.memory, old_disk, "is an older copy"),
        (&old_memory, copy(&*world.ssd.disk), "later life of this pool"),
        (&world.memory, Arc::new(RamDisk::new(8 << 20)), "has no stamp"),
        (&world.memory, Arc::new(RamDisk::new(4 << 20)), "has 4194304 bytes"),
    ];
    for (memory, disk, why) in rows {
        let mut before = vec![0; 8192];
        disk.read(0, &mut before).expect("read");
        let ssd = TierDisk { disk, ..world.ssd.clone() };
        let error = open(memory, None, Some(&ssd)).err().expect("refused").to_string();
        assert!(error.contains(why) && error.contains("--read-only"), "{error}");
        let mut after = vec![0; 8192];
        ssd.disk.read(0, &mut after).expect("read");
        assert!(before == after, "{why}: it was written to");
    }
    let error = open(&world.memory, None, None).err().expect("refused").to_string();
    assert!(error.contains("cannot be opened: there is none"), "{error}");
    drop(world.open());
}

/// Without its SSD a file system is read as far as the pool has it, and nothing is changed.
#[test]
fn a_file_system_without_its_ssd_is_only_read() {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let (away, here) = (make(&fs, "away"), make(&fs, "here"));
    fs.write(away, 0, &bytes(1, 10_000)).expect("written");
    send_away(&fs);
    fs.write(here, 0, &bytes(2, 10_000)).expect("written");
    drop(fs);
    let pool = Arc::new(Pool::open(world.memory.clone(), BOOT).expect("it opens").0);
    let options = FsOptions { read_only: true, ..options(None) };
    let fs = FileSystem::open(pool, NAME, options).expect("it opens");
    assert!(content(&fs, here).expect("read") == bytes(2, 10_000));
    let error = content(&fs, away).expect_err("its pages are not there").to_string();
    assert!(error.contains("the SSD ssd is not there"), "{error}");
    assert_eq!(fs.getattr(away).expect("there").size, 10_000);
    assert_sound(&fs);
}

/// What is damaged on the SSD is an error for its page alone, and heals when it is overwritten.
#[test]
fn a_damaged_page_is_an_error_until_it_is_overwritten() {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    let mut want = bytes(1, 10 * PAGE as usize);
    fs.write(file, 0, &want).expect("written");
    send_away(&fs);
    let mut all = vec![0; 8 << 20];
    world.ssd.disk.read(0, &mut all).expect("read");
    let third = &want[3 * PAGE as usize..][..64];
    let at = all.windows(64).position(|window| window == third).expect("it is there") / 512 * 512;
    all[at] ^= 1;
    world.ssd.disk.write(at as u64, &all[at..at + 512], Access::Cached).expect("written");
    let mut page = vec![0; PAGE as usize];
    for number in 0..10 {
        let read = fs.read(file, number * PAGE, &mut page);
        match number {
            3 => assert!(read.expect_err("it is damaged").to_string().contains("is damaged")),
            _ => assert!(page == want[(number * PAGE) as usize..][..PAGE as usize], "page {number}"),
        }
    }
    let part = fs.write(file, 3 * PAGE + 100, b"a part");
    assert!(part.is_err(), "the rest of the page is not known");
    fs.write(file, 3 * PAGE, &bytes(9, PAGE as usize)).expect("a whole page");
    want[3 * PAGE as usize..][..PAGE as usize].copy_from_slice(&bytes(9, PAGE as usize));
    assert!(content(&fs, file).expect("read") == want);
    assert_sound(&fs);
}

/// Opens a copy of the pool that was made as a backup is, after the file system went on. Returns the refusal.
fn open_after_backup() -> Option<String> {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, 300_000)).expect("written");
    send_away(&fs);
    fs.freeze();
    let copy = Arc::new(world.memory.kill());
    fs.thaw();
    fs.write(file, 0, &bytes(2, 300_000)).expect("written");
    send_away(&fs);
    drop(fs);
    open(&copy, None, Some(&world.ssd)).err().map(|error| error.to_string())
}

/// TI11: a backup of the pool is refused once its SSD went on, and not before.
#[test]
fn ti11_a_backup_is_refused_once_its_ssd_went_on() {
    let refused = open_after_backup();
    assert!(refused.as_ref().is_some_and(|why| why.contains("later life of this pool")), "{refused:?}");
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, 300_000)).expect("written");
    send_away(&fs);
    fs.freeze();
    let copy = Arc::new(world.memory.kill());
    fs.thaw();
    fs.unlink(Ino::ROOT, b"file").expect("removed");
    run_steps(&fs);
    drop(fs);
    let fs = open(&copy, None, Some(&world.ssd)).expect("nothing was written to the SSD");
    assert!(content(&fs, file).expect("read") == bytes(1, 300_000));
}

#[test]
fn canary_an_ssd_that_goes_on_under_the_generation_of_a_backup_is_found() {
    plant(Some(Bug::CopiedPool));
    let refused = open_after_backup();
    plant(None);
    assert_eq!(refused, None, "the backup opens, and its names lead to other bytes");
}

/// TI9: space that is reported as free can be used, and is free again after removals.
#[test]
fn ti9_a_full_file_system_had_what_it_called_free() {
    let world = TieredWorld::new(16 * CHUNK, 24 << 20);
    let fs = world.open();
    let part = bytes(1, 512 << 10);
    let fill = |from: u64| {
        let free = fs.statfs().free_bytes;
        let mut written = 0;
        for number in from.. {
            let file = match fs.create_file(Ino::ROOT, format!("{number}").as_bytes(), &new(FileKind::File)) {
                Ok(made) => made.ino,
                Err(error) => {
                    assert!(error.is_no_space(), "{error}");
                    break;
                }
            };
            match fs.write(file, 0, &part) {
                Ok(count) => written += count as u64,
                Err(error) => {
                    assert!(error.is_no_space(), "{error}");
                    break;
                }
            }
            if fs.statfs().free_bytes == 0 && written > 2 * free {
                panic!("it never fills");
            }
        }
        (free, written)
    };
    for round in 0..3 {
        let (free, written) = fill(round * 1000);
        assert!(written * 100 > free * 93, "round {round}: {written} of {free} bytes");
        assert_sound(&fs);
        for number in round * 1000..(round + 1) * 1000 {
            match fs.unlink(Ino::ROOT, format!("{number}").as_bytes()) {
                Ok(()) => {}
                Err(crate::Error::NotFound) => break,
                Err(error) => panic!("{error}"),
            }
        }
        run_steps(&fs);
    }
}

/// A policy is kept from one opening to the next.
#[test]
fn a_policy_lasts() {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let policy = |fs: &FileSystem| fs.tier().map(|tier| tier.policy);
    assert_eq!(policy(&fs), Some(TierPolicy::Ferrite));
    fs.tier_upkeep().set_policy(TierPolicy::Paper).expect("set");
    assert_eq!(policy(&fs), Some(TierPolicy::Paper));
    drop(fs);
    assert_eq!(policy(&world.open()), Some(TierPolicy::Paper));
}
