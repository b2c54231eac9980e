//! The medium's own copy and fence at a place of a mapping, and nothing else: what the machine allows.

use std::sync::Arc;

use ferrite_memory::{Mapped, Memory, Scheme};

/// A place in a mapping.
pub struct Bare {
    memory: Arc<Mapped>,
    at: u64,
}

impl Bare {
    /// Byte `at` of `memory` and what follows.
    pub fn new(memory: Arc<Mapped>, at: u64) -> Self {
        Self { memory, at }
    }

    /// Copies out what lies `at` bytes behind the place.
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

    /// The same, and then where that ends is stored `end` bytes behind the beginning of the mapping, with times: as durable.
    /// What a file that grows costs at least, where nobody may see a size before what it covers.
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
