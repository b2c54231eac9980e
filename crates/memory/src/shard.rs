//! The choice of one of a few copies of a value by thread, so that threads do not share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of copies.
pub const SHARDS: usize = 16;

/// A value on cache lines of its own (two, because processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the shard of this thread, below [`SHARDS`].
#[inline]
pub fn own_shard() -> usize {
    let own = OWN.get();
    if own == usize::MAX { choose() } else { own }
}

#[cold]
fn choose() -> usize {
    OWN.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    OWN.get()
}
