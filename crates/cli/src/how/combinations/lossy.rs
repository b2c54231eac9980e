//! A memory that can lose a store on its way to the medium, and that can be no more durable than a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{Memory, Scheme, forward_memory};

/// A memory that loses its next store when it is told to.
pub struct Lossy {
    memory: Arc<dyn Memory>,
    /// Only a barrier is durable, as on a file.
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

    /// Whether the store that was to be lost has come.
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
