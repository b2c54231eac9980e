//! The memory that replies waiting for their clients may use, on all connections together (N15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes for all connections of a server, beyond what idle connections hold.
const ALL_BYTES: usize = 64 << 20;

/// The bytes of the budget that are free.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(ALL_BYTES))
    }
}

/// The part of a budget that one connection holds. Dropping the share releases its bytes.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Returns an empty share.
    pub fn none(of: Arc<Budget>) -> Self {
        Self { of, bytes: 0 }
    }

    /// Returns an empty share of the same budget.
    pub fn sibling(&self) -> Self {
        Self::none(Arc::clone(&self.of))
    }

    /// Acquires bytes until the share has `bytes`. Returns false, and acquires none, if the budget has too few. Never
    /// waits (N4).
    pub fn raise(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        let less = |left: usize| left.checked_sub(missing);
        let is_there = self.of.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.bytes += if is_there { missing } else { 0 };
        is_there
    }

    /// Releases all bytes of the share.
    pub fn release(&mut self) {
        self.of.0.fetch_add(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
