//! Files that are larger than the pool: their pages go to SSDs and come back.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_disk::{Disk, RamDisk};
use ferrite_pool::Pool;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::support::{BOOT, NAME, assert_sound, content, new, new_memory, options, resize, run_steps};
use crate::store::tier_members::TierDisk;
use crate::tier::{evict, make_room};
use crate::{Allocate, FileKind, FileSystem, Ino};

/// A file system with a tier of one SSD.
pub struct TieredWorld {
    pub memory: Arc<LyingMemory>,
    pub ssd: TierDisk,
}

impl TieredWorld {
    pub fn new(pool_bytes: u64, ssd_bytes: u64) -> Self {
        let memory = new_memory(Model::MAPPED, pool_bytes);
        let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(ssd_bytes));
        let ssd = TierDisk { uuid: *b"the uuid of one.", address: "ssd".into(), disk };
        let pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
        FileSystem::add_tier(&pool, NAME, std::slice::from_ref(&ssd)).expect("added");
        pool.close().expect("it closes");
        Self { memory, ssd }
    }

    pub fn open(&self) -> Arc<FileSystem> {
        let pool = Pool::open(self.memory.clone(), BOOT).expect("it opens").0;
        FileSystem::open_tiered(Arc::new(pool), NAME, options(None), vec![self.ssd.clone()]).expect("it opens")
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn make(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino
}

/// Sends all that may go to the SSD.
pub fn send_away(fs: &FileSystem) {
    fs.drain_tier().expect("drained");
    let slots = fs.slots.as_ref().expect("a tier");
    while evict::evict(fs, slots, &fs.tier).expect("evicted") > 0 {}
}

fn away_pages(fs: &FileSystem) -> u64 {
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
