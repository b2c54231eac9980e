//! A memory that can lose a store on its way to the medium, and that can be no more durable than a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_medium::{Memory, Result, Scheme, Shared, Span, Survival};

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
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn survival(&self) -> Survival {
        self.memory.survival()
    }

    fn fence_is_durable(&self) -> bool {
        !self.needs_barriers && self.memory.fence_is_durable()
    }

    fn load(&self, at: u64, into: &mut [u8]) {
        self.memory.load(at, into);
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        if !self.loses.swap(false, Ordering::SeqCst) {
            self.memory.store(at, from, how);
        }
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.memory.zero(span, how);
    }

    fn load_word(&self, at: u64) -> u64 {
        self.memory.load_word(at)
    }

    fn store_word(&self, at: u64, value: u64) {
        self.memory.store_word(at, value);
    }

    fn flush(&self, span: Span) {
        self.memory.flush(span);
    }

    fn fence(&self) {
        self.memory.fence();
    }

    fn barrier(&self) -> Result<()> {
        self.memory.barrier()
    }

    fn reserve(&self, span: Span) -> Result<()> {
        self.memory.reserve(span)
    }

    fn release(&self, span: Span) -> Result<()> {
        self.memory.release(span)
    }

    fn share(&self, span: Span) -> Result<Shared> {
        self.memory.share(span)
    }
}
