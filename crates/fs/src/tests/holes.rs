//! Reads of what was never written are loads of the medium, so that an emulated one charges them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Memory, forward_memory};
use ferrite_pool::Pool;

use super::support::*;
use crate::{FileKind, FileSystem, Ino};

/// A memory that counts the bytes that were loaded from holes.
struct Charged {
    memory: Arc<LyingMemory>,
    holes: AtomicU64,
}

impl Memory for Charged {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word);
    forward_memory!(self => self.memory; flush, fence, barrier, reserve, release);

    fn load_hole(&self, into: &mut [u8]) {
        self.holes.fetch_add(into.len() as u64, Ordering::SeqCst);
        self.memory.load_hole(into);
    }
}

#[test]
fn a_read_of_a_hole_is_charged() {
    let memory = Arc::new(Charged { memory: new_memory(Model::MAPPED, POOL_BYTES), holes: AtomicU64::new(0) });
    let pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
    let fs = FileSystem::open(Arc::new(pool), NAME, options(None)).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"sparse", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 1 << 20, &[7; 4096]).expect("room");
    let mut read = vec![1; 3 << 12];
    memory.holes.store(0, Ordering::SeqCst);
    fs.read(ino, (1 << 20) - 8192, &mut read).expect("it reads");
    assert!(read[..8192] == [0; 8192] && read[8192..] == [7; 4096]);
    assert_eq!(memory.holes.load(Ordering::SeqCst), 8192);
}
