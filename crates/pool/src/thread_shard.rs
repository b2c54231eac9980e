//! The shard of a structure that a thread uses first, so that threads do not contend for one lock or one line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local!(static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) });

/// Returns the shard of the calling thread, below `shards`. Threads are numbered in the order of their first call.
#[inline]
pub fn thread_shard(shards: usize) -> usize {
    let number = NUMBER.get();
    if number == usize::MAX { new_number() % shards } else { number % shards }
}

#[cold]
fn new_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    NUMBER.set(THREADS.fetch_add(1, Ordering::Relaxed));
    NUMBER.get()
}
