//! Writers in place at one block, held up where it matters: B6.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, Builder, JoinHandle};

use ferrite_memory::{MapOptions, Mapped, forward_memory};

use super::*;

/// The progress of the test. Threads are identified by their names.
const FIRST_HAS_STORED: u32 = 1;
const FIRST_GOES_ON: u32 = 2;
const SECOND_HAS_COPIED: u32 = 3;
const SECOND_GOES_ON: u32 = 4;

/// A memory that holds up the thread `first` when it has stored a block, and `second` when it has copied one out.
struct StagedMemory {
    memory: Mapped,
    act: AtomicU32,
}

impl StagedMemory {
    fn hold_up(&self, who: &str, at: u32, until: u32) {
        if thread::current().name() == Some(who) {
            self.act.store(at, Ordering::SeqCst);
            await_that(|| self.act.load(Ordering::SeqCst) >= until);
        }
    }
}

impl Memory for StagedMemory {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, zero, load_word, store_word, store_words, flush, fence, barrier
    );

    fn load(&self, at: u64, into: &mut [u8]) {
        self.memory.load(at, into);
        if into.len() as u64 == BLOCK {
            self.hold_up("second", SECOND_HAS_COPIED, SECOND_GOES_ON);
        }
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.memory.store(at, from, how);
        if from.len() as u64 == BLOCK {
            self.hold_up("first", FIRST_HAS_STORED, FIRST_GOES_ON);
        }
    }
}

fn await_that(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

fn write_sector(disk: &Arc<BlockDisk>, name: &str, sector: u64) -> JoinHandle<()> {
    let disk = Arc::clone(disk);
    let write = move || disk.write(sector * 512, &[sector as u8 + 1; 512], Access::Fua).expect("written");
    Builder::new().name(name.into()).spawn(write).expect("started")
}

/// Two writers find one block missing. The second writer then meets the block of the first while a third one writes to that
/// block: its acknowledged data stays.
#[test]
fn b6_a_block_that_others_write_in_place_is_not_copied_away_under_them() {
    let memory = Mapped::anonymous(16 << 20, &MapOptions::default()).expect("mapped");
    let stage = Arc::new(StagedMemory { memory, act: AtomicU32::new(0) });
    Pool::create(&*stage, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(stage.clone(), BOOT).expect("opened").0);
    create(&pool, "disk0", &spec_of(ways()[0])).expect("created");
    let disk =
        BlockDisk::open(pool, "disk0", DiskOptions { in_place: true, ..DiskOptions::default() }).expect("opened");
    let all_free = disk.used_and_free_bytes().1;

    let first = write_sector(&disk, "first", 0);
    await_that(|| stage.act.load(Ordering::SeqCst) == FIRST_HAS_STORED);
    let second = write_sector(&disk, "second", 1);
    await_that(|| disk.used_and_free_bytes().1 == all_free - 2 * BLOCK);
    stage.act.store(FIRST_GOES_ON, Ordering::SeqCst);
    first.join().expect("wrote");
    await_that(|| second.is_finished() || stage.act.load(Ordering::SeqCst) == SECOND_HAS_COPIED);
    write_sector(&disk, "third", 2).join().expect("wrote");
    stage.act.store(SECOND_GOES_ON, Ordering::SeqCst);
    second.join().expect("wrote");

    let bytes = read_all(&*disk);
    assert_eq!([bytes[0], bytes[512], bytes[1024]], [1, 2, 3], "a write that was acknowledged is lost");
}
