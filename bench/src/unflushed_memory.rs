//! A memory without persistence: what an experiment compares the cost of persistence with.

use ferrite_memory::{Memory, Result, Scheme, Span, Survival, forward_memory};

/// The memory `M`, whose stores stay in the caches: flushes, fences and barriers do nothing.
///
/// The memory reports that a fence is durable, so that its users never call a barrier, and that it survives nothing.
pub struct UnflushedMemory<M>(pub M);

impl<M: Memory> Memory for UnflushedMemory<M> {
    forward_memory!(
        self => self.0;
        size, load, load_summed, load_hole, expect_store, load_word, load_words, store_word, store_words, reserve, release
    );

    fn survival(&self) -> Survival {
        Survival::none("its stores are never flushed")
    }

    fn fence_is_durable(&self) -> bool {
        true
    }

    fn store(&self, at: u64, from: &[u8], _: Scheme) {
        self.0.store(at, from, Scheme::WritebackAll);
    }

    fn zero(&self, span: Span, _: Scheme) {
        self.0.zero(span, Scheme::WritebackAll);
    }

    fn flush(&self, _: Span) {}

    fn fence(&self) {}

    fn barrier(&self) -> Result<()> {
        Ok(())
    }
}
