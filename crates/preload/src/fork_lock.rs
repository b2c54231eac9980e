//! A lock that is held over a fork. A child has it as the thread that forks had it, and of those who waited for it none is
//! there: so it does not know who waits, and hands itself over to nobody.
//!
//! Unsafe because what it guards is reached through a pointer.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module. What is done under it is short.
pub struct ForkLock<T> {
    is_taken: AtomicBool,
    guarded: UnsafeCell<T>,
}

// SAFETY: `guarded` is reached by one thread at a time, who has the lock.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// What a lock guards, for who has it.
pub struct ForkLockGuard<'a, T>(&'a ForkLock<T>);

impl<T> ForkLock<T> {
    pub const fn new(guarded: T) -> Self {
        Self { is_taken: AtomicBool::new(false), guarded: UnsafeCell::new(guarded) }
    }

    pub fn lock(&self) -> ForkLockGuard<'_, T> {
        while self.is_taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        ForkLockGuard(self)
    }

    /// Lets go of what was forgotten to be let go of, by the thread that has it or by its copy in a child.
    pub fn open(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

impl<T> Deref for ForkLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.guarded.get() }
    }
}

impl<T> DerefMut for ForkLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { &mut *self.0.guarded.get() }
    }
}

impl<T> Drop for ForkLockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.open();
    }
}
