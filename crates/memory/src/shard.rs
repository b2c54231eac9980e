//! Which of a few copies of a thing a thread uses, so that threads do not fight over one cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies there are.
pub const SHARDS: usize = 16;

/// A value on cache lines of its own (two, because processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread's shard, below [`SHARDS`].
pub fn mine() -> usize {
    if MINE.get() == usize::MAX {
        MINE.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    MINE.get()
}
