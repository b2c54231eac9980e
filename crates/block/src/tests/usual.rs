//! Readers of what lies at its usual place, who pin nothing: what comes while they copy is found afterwards (B3).

use ferrite_memory::{MapOptions, Mapped, forward_memory};
use parking_lot::Mutex;

use super::*;

/// Blocks of the disk: for each shard of free blocks, the blocks whose usual place one word records.
const BLOCKS: u64 = 16 * 512;

type Interruption = Box<dyn FnOnce() + Send>;

/// A memory on which something comes between the two halves of a copy of a block.
struct Interrupted {
    memory: Mapped,
    by: Mutex<Option<Interruption>>,
}

impl Memory for Interrupted {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, store, zero, load_word, store_word, store_words, flush, fence, barrier
    );

    fn load(&self, at: u64, into: &mut [u8]) {
        let interruption = (into.len() as u64 == BLOCK).then(|| self.by.lock().take()).flatten();
        let (one, other) = into.split_at_mut(into.len() / 2);
        self.memory.load(at, one);
        if let Some(interruption) = interruption {
            interruption();
        }
        self.memory.load(at + one.len() as u64, other);
    }
}

/// A block whose every word is the same.
fn uniform(word: u64) -> Vec<u8> {
    word.to_le_bytes().repeat(512)
}

/// Returns the bytes that a reader of block `index` gets if `interruption` runs during its copy. All neighbours of the
/// block lie at their usual place.
fn read_amid(index: u64, interruption: impl FnOnce(&BlockDisk) + Send + 'static) -> Vec<u8> {
    let memory = Mapped::anonymous(48 << 20, &MapOptions::default()).expect("mapped");
    let memory = Arc::new(Interrupted { memory, by: Mutex::new(None) });
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("opened").0);
    let spec = DiskSpec { size: BLOCKS * BLOCK, sector_bytes: 512, thin: false, checksum: false };
    create(&pool, "disk0", &spec).expect("created");
    let disk = BlockDisk::open(pool, "disk0", DiskOptions::default()).expect("opened");
    for first in (0..BLOCKS).step_by(64) {
        disk.write(first * BLOCK, &vec![0; 64 * BLOCK as usize], Access::Cached).expect("written");
    }
    let span = Span::new(index * BLOCK, BLOCK);
    assert!(disk.map.usual(span).is_some(), "a disk that was filled in order");
    let others = Arc::clone(&disk);
    *memory.by.lock() = Some(Box::new(move || interruption(&others)));
    let mut block = uniform(9);
    disk.read(span.at, &mut block).expect("read");
    assert!(memory.by.lock().is_none(), "nothing came between");
    block
}

/// Writes to block `index` until the place that it had first holds something else.
fn overwrite(disk: &BlockDisk, index: u64) {
    for word in 1..3000 {
        disk.write(index * BLOCK, &uniform(word), Access::Cached).expect("written");
    }
}

#[test]
fn b3_a_reader_without_a_pin_finds_one_write_whole() {
    assert_eq!(read_amid(100, |disk| overwrite(disk, 100)), uniform(2999));
    assert_eq!(read_amid(100, |disk| overwrite(disk, 101)), uniform(0), "its neighbour moved");
    assert_eq!(read_amid(100, |disk| overwrite(disk, 1000)), uniform(0), "others are none of its business");
    let trimmed = read_amid(100, |disk| disk.trim(Span::new(100 * BLOCK, BLOCK), Access::Cached).expect("trimmed"));
    assert_eq!(trimmed, uniform(0));
}

#[test]
fn canary_a_reader_that_does_not_look_again_is_found() {
    let bug = plant("block: unpinned reader does not check again");
    let found = read_amid(100, |disk| overwrite(disk, 100));
    drop(bug);
    assert_ne!(found[..8], found[4088..], "a mixture");
}

/// A writer that clears a group has yet to change the word when another one finds the group cleared and moves a block
/// of it.
#[test]
fn b3_a_group_that_somebody_is_about_to_leave_is_left() {
    let found = read_amid(100, |disk| {
        disk.map.clear_group(100);
        overwrite(disk, 100);
    });
    assert_eq!(found, uniform(2999));
}
