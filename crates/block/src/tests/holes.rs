//! Reads of blocks that were never written are loads of the medium, so that an emulated one charges them.

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_disk::{Op as Asked, Request};
use ferrite_memory::{Result, forward_memory};

use super::*;

/// A memory that counts the bytes that were loaded from it, and those that were loaded from holes.
struct Charged {
    memory: Arc<LyingMemory>,
    loaded: AtomicU64,
    holes: AtomicU64,
}

impl Memory for Charged {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, store, zero, load_word, store_word, store_words, flush, fence, barrier
    );

    fn load(&self, at: u64, into: &mut [u8]) {
        self.loaded.fetch_add(into.len() as u64, Ordering::SeqCst);
        self.memory.load(at, into);
    }

    fn load_hole(&self, into: &mut [u8]) {
        self.holes.fetch_add(into.len() as u64, Ordering::SeqCst);
        self.memory.load_hole(into);
    }
}

#[test]
fn what_was_never_written_is_charged_as_what_was() -> Result<()> {
    for way in ways() {
        let memory = Arc::new(Charged { memory: fresh(way), loaded: AtomicU64::new(0), holes: AtomicU64::new(0) });
        let disk = open(memory.clone(), way);
        disk.write(BLOCK, &content(8, 3), Access::Fua)?;
        let charged = || (memory.loaded.swap(0, Ordering::SeqCst), memory.holes.swap(0, Ordering::SeqCst));
        charged();
        let mut block = vec![1; BLOCK as usize];
        disk.read(2 * BLOCK, &mut block)?;
        assert_eq!((charged(), &block[..]), ((0, BLOCK), &[0; BLOCK as usize][..]), "{way:?}");
        disk.read(2 * BLOCK + 512, &mut block[..512])?;
        assert_eq!(charged(), (0, 512), "{way:?}: part of a block");
        let request =
            Request { token: 1, op: Asked::Read, span: Span::new(0, 3 * BLOCK), buffer: vec![1; 3 * BLOCK as usize] };
        let done = request.execute(&*disk);
        done.result?;
        assert!(done.buffer[..4096] == [0; 4096] && done.buffer[8192..] == [0; 4096]);
        assert_eq!(charged(), (BLOCK, 2 * BLOCK), "{way:?}: among what was written");
        disk.trim(Span::new(BLOCK, BLOCK), Access::Fua)?;
        charged();
        disk.read(BLOCK, &mut block)?;
        let (loaded, holes) = charged();
        assert_eq!(loaded + holes, BLOCK, "{way:?}: after a trim");
    }
    Ok(())
}
