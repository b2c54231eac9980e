//! A lock for work that ends in a fence, released by a plain store.
//!
//! A locked instruction waits until every earlier store has left the processor. Behind a fence the next owner waits for
//! that anyway, so a mutex that is released by a locked instruction waits twice. The price: no release wakes a waiting
//! thread, and the thread polls.
//!
//! An owner that stored past the cache fences before the release, because such a store may pass the releasing one.
#![allow(unsafe_code, reason = "a lock of its own for another crate's guards")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_api::{GuardNoSend, Mutex, MutexGuard, RawMutex};

/// A value behind such a lock.
pub type Latch<T> = Mutex<RawLatch, T>;
/// The value, until it is let go of.
pub type LatchGuard<'a, T> = MutexGuard<'a, RawLatch, T>;

/// The number of polls before other threads may run, as long as a copy and its fence take. After that a waiting thread
/// sleeps between polls.
const SPINS: u32 = 200;
const TURNS: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);

/// See the module.
#[derive(Debug)]
pub struct RawLatch(AtomicBool);

impl RawLatch {
    #[cold]
    fn wait(&self) {
        let mut looks = 0_u32;
        while self.0.load(Ordering::Relaxed) || !self.try_lock() {
            looks = looks.saturating_add(1);
            if looks < SPINS {
                std::hint::spin_loop();
            } else if looks < TURNS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}

// SAFETY: the thread that changed the word from false to true holds the lock, and only that thread stores false.
unsafe impl RawMutex for RawLatch {
    // Each latch has a word of its own.
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
