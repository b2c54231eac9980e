//! What the replies that wait for their clients may take of memory, on all connections together (N15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes for all connections of a server, beyond what each has when it is idle.
const ALL_BYTES: usize = 64 << 20;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(ALL_BYTES))
    }
}

/// A part of a budget that one connection has, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Nothing yet.
    pub fn none(of: Arc<Budget>) -> Self {
        Self { of, bytes: 0 }
    }

    /// Takes what is missing to have `bytes`; false if there is not so much left. Never waits (N4).
    pub fn raise(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        let less = |left: usize| left.checked_sub(missing);
        let is_there = self.of.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.bytes += if is_there { missing } else { 0 };
        is_there
    }

    /// Gives all of it back.
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

    /// N15: no more is taken than there is, what is dropped or released comes back, and a refusal takes nothing.
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
