//! A lock for what ends in a fence, let go of by a plain store.
//!
//! A locked instruction waits until every store before it has left the processor. Behind a fence that is all that a fence
//! puts off, so a mutex that is let go of by one waits twice for what the next one who takes it waits for anyhow. The price:
//! who waits is woken by nobody, and looks again by itself.
//!
//! Whoever stored past the cache has fenced before it lets go: such a store may pass the one that lets go.
#![allow(unsafe_code, reason = "a lock of its own for another crate's guards")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_api::{GuardNoSend, Mutex, MutexGuard, RawMutex};

/// A value behind such a lock.
pub type Latch<T> = Mutex<RawLatch, T>;
/// The value, until it is let go of.
pub type LatchGuard<'a, T> = MutexGuard<'a, RawLatch, T>;

/// Looks of who waits: as many as a copy and its fence take, then others may run, then it sleeps in between.
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

// SAFETY: it is had by who changed the word from false to true, and only who has it stores false.
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
