//! A memory that can lose a store on its way to the medium. It can also be as volatile as a file's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{Memory, Scheme, forward_memory};

/// A memory that loses its next store on request.
pub struct Lossy {
    memory: Arc<dyn Memory>,
    /// True if only a barrier is durable, as on a file.
    needs_barriers: bool,
    loses: AtomicBool,
}

impl Lossy {
    pub fn over(memory: Arc<dyn Memory>, needs_barriers: bool) -> Arc<Self> {
        Arc::new(Self { memory, needs_barriers, loses: AtomicBool::new(false) })
    }

    pub fn lose_next(&self) {
        self.loses.store(true, Ordering::SeqCst);
    }

    /// Returns true if the memory has lost the requested store.
    pub fn has_lost(&self) -> bool {
        !self.loses.swap(false, Ordering::SeqCst)
    }
}

impl Memory for Lossy {
    forward_memory!(
        self => self.memory;
        size, survival, load, zero, load_word, store_word, store_words, flush, fence, barrier, reserve, release, share
    );

    fn fence_is_durable(&self) -> bool {
        !self.needs_barriers && self.memory.fence_is_durable()
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        if !self.loses.swap(false, Ordering::SeqCst) {
            self.memory.store(at, from, how);
        }
    }
}
