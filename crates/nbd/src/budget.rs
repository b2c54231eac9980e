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
mod tests {
    use super::*;

    /// N15: all shares stay within the budget, a drop or a release returns bytes, and a refusal acquires none.
    #[test]
    fn shares_are_of_one_whole() {
        let all = Arc::new(Budget::default());
        let mut shares: Vec<Share> = (0..3).map(|_| Share::none(Arc::clone(&all))).collect();
        assert!(shares[0].raise(ALL_BYTES / 2) && shares[0].raise(ALL_BYTES / 4) && shares[1].raise(ALL_BYTES / 2));
        assert!(!shares[2].raise(1) && !shares[1].raise(ALL_BYTES));
        shares[0].release();
        assert!(shares[2].raise(ALL_BYTES / 2));
        drop(shares);
        assert_eq!(all.0.load(Ordering::Relaxed), ALL_BYTES);
    }
}
