//! Kept images: what a save writes, what a restore finds, and what is refused.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_disk::{Disk, Geometry, RamDisk};
use ferrite_memory::planted::plant;

use super::*;
use crate::Freeze;
use crate::backup::kept_format::{KeptHeader, capacity_bytes};
use crate::backup::kept_reader::KeptReader;
use crate::backup::kept_restore::{RestorePlan, restore_by_threads};

pub(super) fn geometry(size: u64) -> Geometry {
    Geometry {
        size,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    }
}

/// The options of a save that freezes the pool for all of its time.
pub(super) const FROZEN: SaveOptions<'static> =
    SaveOptions { nonce: 7, time_s: 1_700_000_000, beside_clients: false, snapshot: None };

/// Writes a blank image of `pool` to `disk`.
pub(super) fn blank_image(pool: &Pool, disk: &dyn Disk) {
    let (start, bytes) = KeptImage::blank(pool, IMAGE);
    assert!(bytes <= disk.geometry().size);
    disk.write(0, &start, ferrite_disk::Access::Cached).unwrap();
    disk.flush().unwrap();
}

pub(super) fn image_disk(pool: &Pool) -> Arc<RamDisk> {
    let disk = Arc::new(RamDisk::new(capacity_bytes(pool.superblock().size)));
    blank_image(pool, &disk);
    disk
}

pub(super) fn kept(disk: &Arc<impl Disk + 'static>) -> KeptImage {
    KeptImage::open(Box::new(Arc::clone(disk))).unwrap()
}

pub(super) fn restored_by(plan: RestorePlan, disk: &dyn Disk, memory: &Arc<LyingMemory>) -> Result<ImageSummary> {
    restore_by_threads(&KeptReader::open(disk)?, &**memory, RestoreOptions::default(), plan, &mut quiet)
}

/// Restores by this thread alone, so that a crash test repeats.
pub(super) fn restored_kept(disk: &dyn Disk, memory: &Arc<LyingMemory>) -> Result<ImageSummary> {
    restored_by(RestorePlan { threads: 1, claimed: 2 }, disk, memory)
}

/// What the pool of the newest save holds.
fn saved_values(disk: &dyn Disk, bytes: u64) -> BTreeMap<String, Vec<u8>> {
    let memory = blank(bytes);
    restored_kept(disk, &memory).unwrap();
    ensure_sound(&memory);
    values(&open(&memory))
}

/// KI2, KI5: each save is restored as the pool was, and writes what changed.
#[test]
fn ki5_each_save_writes_what_changed() {
    let (_, pool) = make(POOL_BYTES_MIN * 2);
    let disk = image_disk(&pool);
    let mut image = kept(&disk);
    assert_eq!(image.last(), None);
    put(&pool, "large", &vec![1; 3 << 20]);
    put(&pool, "zeros", &vec![0; 20_000]);
    let full = image.save(&pool, &FROZEN, &mut quiet).unwrap();
    assert!((3 << 20..4 << 20).contains(&full.changed_bytes), "{full:?}");
    for round in 2..6_u8 {
        put(&pool, "small", &[round; 5000]);
        let saved = image.save(&pool, &FROZEN, &mut quiet).unwrap();
        assert!((2 * PAGE..12 * PAGE).contains(&saved.changed_bytes), "{saved:?}");
        assert!(saved.written_bytes <= saved.changed_bytes + 8 * PAGE, "{saved:?}");
        assert!(saved_values(&disk, POOL_BYTES_MIN * 2) == values(&pool));
        if round == 4 {
            image = kept(&disk);
            assert_eq!(image.last(), Some(saved.save), "the next process goes on from the last save");
        }
    }
    pool.remove_tag(&pool.tag("large").unwrap()).unwrap();
    image.save(&pool, &FROZEN, &mut quiet).unwrap();
    assert!(saved_values(&disk, POOL_BYTES_MIN * 2) == values(&pool));
    for round in 0..3_u8 {
        put(&pool, "large", &vec![round; 5 << 20]);
        image.save(&pool, &FROZEN, &mut quiet).expect("an image has room for two trees");
    }
    assert!(saved_values(&disk, POOL_BYTES_MIN * 2) == values(&pool));
}

/// A pool that was restored goes on with the image that it came from, and the image of a pool that went on elsewhere stays.
#[test]
fn ki6_a_later_image_and_one_of_another_pool_stay() {
    let (_, pool) = make(POOL_BYTES_MIN);
    let disk = image_disk(&pool);
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    let memory = blank(POOL_BYTES_MIN);
    restored_kept(&disk, &memory).unwrap();
    let earlier = open(&memory);
    let refused = |pool: &Pool, words: &str| {
        let message = kept(&disk).save(pool, &FROZEN, &mut quiet).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
        assert!(message.contains("name another image, or remove the pool"), "{message}");
        let message = kept(&disk).ensure_of(pool, "it").unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    for _ in 0..2 {
        kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    }
    refused(&earlier, "which knows of");
    let memory = blank(POOL_BYTES_MIN);
    Pool::create(&*memory, &Format { uuid: [9; 16], boot_id: BOOT }).unwrap();
    refused(&open(&memory), "an image of another pool");
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
}

/// A pool that grew by a level of the tree, or within one, is saved to a larger image.
#[test]
fn a_pool_that_grows_is_saved() {
    for extra in [CHUNK, 512 << 20] {
        let (memory, pool) = make(POOL_BYTES_MIN);
        put(&pool, "value", b"some bytes");
        let disk = Arc::new(RamDisk::new(capacity_bytes(POOL_BYTES_MIN + extra)));
        blank_image(&pool, &disk);
        let mut image = kept(&disk);
        image.save(&pool, &FROZEN, &mut quiet).unwrap();
        let larger = blank(POOL_BYTES_MIN + extra);
        drop((pool, memory));
        restored_kept(&disk, &larger).unwrap();
        let pool = open(&larger);
        assert_eq!(pool.superblock().size, POOL_BYTES_MIN + extra);
        for byte in 0..3 {
            put(&pool, "more", &vec![byte; 2 << 20]);
            image.save(&pool, &FROZEN, &mut quiet).unwrap();
            assert!(saved_values(&disk, POOL_BYTES_MIN + extra) == values(&pool));
        }
    }
}

/// KF1: a changed byte in any block of the newest save is found, and nothing panics.
#[test]
fn kf1_a_changed_byte_is_noticed() {
    let (_, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", &[5; 30_000]);
    let disk = image_disk(&pool);
    let saved = kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    let mut all = vec![0; disk.geometry().size as usize];
    disk.read(0, &mut all).unwrap();
    let blocks = (2..all.len() as u64 / PAGE)
        .filter(|block| all[(block * PAGE) as usize..][..PAGE as usize] != [0; PAGE as usize]);
    let blocks: Vec<u64> = blocks.collect();
    assert_eq!(blocks.len() as u64, saved.written_bytes / PAGE - 1);
    for (block, at) in blocks.into_iter().zip((0..PAGE).step_by(37)) {
        let place = (block * PAGE + at) as usize;
        all[place] ^= 1;
        disk.write(block * PAGE, &all[(block * PAGE) as usize..][..PAGE as usize], ferrite_disk::Access::Cached)
            .unwrap();
        let found = restored_kept(&disk, &blank(POOL_BYTES_MIN));
        assert!(matches!(found, Err(Error::BadImage { .. })), "block {block}: {found:?}");
        all[place] ^= 1;
        disk.write(block * PAGE, &all[(block * PAGE) as usize..][..PAGE as usize], ferrite_disk::Access::Cached)
            .unwrap();
    }
    restored_kept(&disk, &blank(POOL_BYTES_MIN)).unwrap();
}

/// KF1: each byte of a header.
#[test]
fn kf1_a_changed_header_is_refused() {
    let (_, pool) = make(POOL_BYTES_MIN);
    let disk = image_disk(&pool);
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    let mut header = [0; PAGE as usize];
    disk.read(PAGE, &mut header).unwrap();
    assert!(KeptHeader::decode(1, &header).is_ok_and(|found| found.encode() == header));
    assert!(KeptHeader::decode(0, &header).is_err(), "it is in the wrong block");
    for at in (0..200).chain([4095]) {
        header[at] ^= 0x10;
        assert!(KeptHeader::decode(1, &header).is_err(), "byte {at}");
        header[at] ^= 0x10;
    }
}

/// Makes two words of a tag equal, by stores of its own.
struct EqualWords {
    at: u64,
    pool: Arc<Pool>,
    gate: parking_lot::Mutex<bool>,
    opened: parking_lot::Condvar,
}

impl EqualWords {
    fn request(&self, value: u64) {
        let mut closed = self.gate.lock();
        self.opened.wait_while(&mut closed, |closed| *closed);
        self.pool.memory().store_word(self.at, value);
        std::thread::yield_now();
        self.pool.memory().store_word(self.at + PAGE, value);
    }
}

impl Freeze for EqualWords {
    fn freeze(&self) {
        *self.gate.lock() = true;
    }

    fn thaw(&self) {
        *self.gate.lock() = false;
        self.opened.notify_all();
    }
}

/// Ends the threads of a test, also if the test fails.
struct EndsThreads<'a>(&'a AtomicBool);

impl Drop for EndsThreads<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// KI1: a save with a snapshot is one moment, although services and transactions go on while it is written. Returns false
/// if some save was not. `bug` is planted in the threads that store.
fn saves_are_moments(bug: Option<&str>) -> bool {
    let inner = blank(POOL_BYTES_MIN);
    Pool::create(&*inner, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let snapshot = Arc::new(PoolSnapshot::new(inner.clone()));
    let pool = Arc::new(Pool::open(snapshot.clone(), BOOT).unwrap().0);
    put(&pool, "words", &[0; 8192]);
    let at = pool.tag("words").unwrap().extents[0].span().at;
    let (gate, opened) = Default::default();
    let words = Arc::new(EqualWords { at, pool: Arc::clone(&pool), gate, opened });
    pool.register_freezer(Arc::<EqualWords>::downgrade(&words));
    let disk = image_disk(&pool);
    let mut image = kept(&disk);
    let is_over = AtomicBool::new(false);
    let mut is_good = true;
    std::thread::scope(|scope| {
        let _end = EndsThreads(&is_over);
        scope.spawn(|| {
            let _bug = bug.map(plant);
            (1..).take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(|value| words.request(value));
        });
        scope.spawn(|| {
            let _bug = bug.map(plant);
            (0..250_u8).cycle().take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(|byte| {
                put(&pool, "value", &vec![byte; 9000]);
            });
        });
        for _ in 0..12 {
            let options = SaveOptions { snapshot: Some(&snapshot), ..FROZEN };
            let mut busy = |_: Progress| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                true
            };
            image.save(&pool, &options, &mut busy).unwrap();
            let memory = blank(POOL_BYTES_MIN);
            is_good &= restored_kept(&disk, &memory).is_ok();
            let found = [0, PAGE].map(|offset| memory.load_word(at + offset));
            is_good &= found[0] == found[1];
            let Ok((back, recovery)) = Pool::open(memory, BOOT) else {
                is_good = false;
                continue;
            };
            is_good &= recovery.clean && recovery.replay.transactions == 0;
            if back.tag("value").is_ok() {
                let mut value = Vec::new();
                is_good &= back.get("value", &mut value).is_ok();
                is_good &= value.len() == 9000 && value.iter().all(|byte| Some(byte) == value.first());
            }
        }
    });
    is_good
}

#[test]
fn ki1_a_save_is_one_moment_while_services_go_on() {
    assert!(saves_are_moments(None));
}

/// KI1: during a save that a snapshot serves, the pool is not frozen.
#[test]
fn ki1_the_pool_is_thawed_before_pages_are_copied() {
    let inner = blank(POOL_BYTES_MIN);
    Pool::create(&*inner, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let snapshot = Arc::new(PoolSnapshot::new(inner.clone()));
    let pool = Pool::open(snapshot.clone(), BOOT).unwrap().0;
    put(&pool, "value", b"then");
    let disk = image_disk(&pool);
    let mut put_now = |_: Progress| {
        put(&pool, "value", b"later");
        true
    };
    let options = SaveOptions { snapshot: Some(&snapshot), ..FROZEN };
    kept(&disk).save(&pool, &options, &mut put_now).unwrap();
    assert_eq!(saved_values(&disk, POOL_BYTES_MIN)["value"], b"then");
    assert_eq!(get(&pool, "value"), b"later");
}

#[test]
fn canary_a_snapshot_that_keeps_nothing_is_caught() {
    assert!(!saves_are_moments(Some("snapshot: a store keeps nothing")));
}

fn pool_of(uuid: [u8; 16]) -> Pool {
    let memory = blank(POOL_BYTES_MIN);
    Pool::create(&*memory, &Format { uuid, boot_id: BOOT }).unwrap();
    open(&memory)
}

/// In files: made, brought up to date, restored by the same command as other images, and not replaced by a backup.
#[test]
fn a_kept_file_is_made_and_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let (_, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", b"some bytes");
    assert_eq!(kept_save(&path).unwrap(), None);
    let mut file = KeptFile::open(&pool, &path, IMAGE).unwrap();
    assert_eq!(file.last(), None);
    let empty = restore_image(&path, &*blank(POOL_BYTES_MIN), RestoreOptions::default(), &mut quiet);
    assert!(empty.is_err(), "it is open for saves, and holds none");
    let saved = file.save(&pool, &FROZEN, &mut quiet).unwrap();
    drop(file);
    assert_eq!(kept_save(&path).unwrap(), Some(saved.save));
    let message = backup_to(&pool, &path, IMAGE, &mut quiet).unwrap_err().to_string();
    assert!(message.contains("is a kept image"), "{message}");
    let summary = verify_image(&path, &mut quiet).unwrap();
    let memory = blank(POOL_BYTES_MIN * 2);
    assert_eq!(restore_from(&path, &*memory, RestoreOptions::default(), &mut quiet).unwrap(), summary);
    let larger = open(&memory);
    assert!(values(&larger) == values(&pool));
    let mut file = KeptFile::open(&larger, &path, IMAGE).unwrap();
    file.save(&larger, &FROZEN, &mut quiet).expect("the file grows with the pool");
    drop(file);
    assert_eq!(verify_image(&path, &mut quiet).unwrap().pool_bytes, POOL_BYTES_MIN * 2);

    // An image without a save gives its place to another pool. One that lost its name is not saved to.
    let unsaved = folder.path().join("unsaved");
    drop(KeptFile::open(&larger, &unsaved, IMAGE).unwrap());
    let mut file = KeptFile::open(&pool_of([7; 16]), &unsaved, IMAGE).expect("it holds no save");
    fs::rename(&unsaved, folder.path().join("moved")).unwrap();
    assert!(file.save(&pool_of([7; 16]), &FROZEN, &mut quiet).is_err());

    let other = folder.path().join("backup");
    backup_to(&larger, &other, IMAGE, &mut quiet).unwrap();
    let before = fs::read(&other).unwrap();
    let message = KeptFile::open(&larger, &other, IMAGE).err().unwrap().to_string();
    assert!(message.contains("is not a kept image"), "{message}");
    assert!(fs::read(&other).unwrap() == before);
}
