//! The medium's copy and fence at a place of a mapping, and nothing else: the bound of this machine.

use std::sync::Arc;

use ferrite_memory::{Mapped, Memory, Scheme};

/// A place in a mapping.
pub struct BareCopy {
    memory: Arc<Mapped>,
    at: u64,
}

impl BareCopy {
    /// The place that begins at byte `at` of `memory`.
    pub fn new(memory: Arc<Mapped>, at: u64) -> Self {
        Self { memory, at }
    }

    /// Copies from `at` bytes behind the place into `into`.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) {
        self.memory.load(self.at + at, into);
    }

    /// Copies to `at` bytes behind the place; durable on return.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) {
        if from.len() >= 4096 {
            self.memory.expect_store(self.at + at);
        }
        self.memory.store(self.at + at, from, Scheme::Nt);
        self.memory.fence();
    }

    /// Copies like [`BareCopy::write`], then stores the end and times, durably, `end` bytes behind the beginning of the
    /// mapping. A file that grows costs no less, because its size must not be durable before its data.
    #[inline]
    pub fn append(&self, at: u64, from: &[u8], end: u64) {
        self.write(at, from);
        let size = at + from.len() as u64;
        let mut line = [0; 32];
        line[..8].copy_from_slice(&size.to_le_bytes());
        self.memory.store(end, &line, Scheme::Flush);
        self.memory.fence();
    }
}
