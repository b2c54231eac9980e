//! The thread of a call: the real one, or the one that a test plays.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first number of real threads. Played threads have smaller numbers.
const FIRST_REAL: u32 = 1 << 16;
static NEXT_REAL: AtomicU32 = AtomicU32::new(FIRST_REAL);

thread_local! {
    static REAL: u32 = NEXT_REAL.fetch_add(1, Ordering::Relaxed);
    static PLAYED: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A logical thread, to which fences and flushes belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Thread(u32);

impl Thread {
    /// The host below the memory, which drops released pages.
    pub const HOST: Self = Self(u32::MAX);

    /// Returns the thread that runs now.
    pub fn current() -> Self {
        Self(PLAYED.get().unwrap_or_else(|| REAL.with(|real| *real)))
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            played if played < FIRST_REAL => write!(f, "thread {played}"),
            real => write!(f, "real thread {}", real - FIRST_REAL),
        }
    }
}

/// A guard: while it lives, calls of this real thread count as calls of a logical thread.
#[must_use = "the thread is played only while this lives"]
#[derive(Debug)]
pub struct AsThread {
    before: Option<u32>,
    stays_here: PhantomData<*const ()>,
}

impl AsThread {
    pub(crate) fn new(number: u32) -> Self {
        assert!(number < FIRST_REAL, "logical threads are numbered below {FIRST_REAL}");
        Self { before: PLAYED.replace(Some(number)), stays_here: PhantomData }
    }
}

impl Drop for AsThread {
    fn drop(&mut self) {
        PLAYED.set(self.before);
    }
}
