//! A lock that is held over a fork. A child has it as the forking thread had it, without the threads that waited for
//! it. So the lock does not record waiters, and is never handed over.
//!
//! Unsafe because the guarded value is reached through a pointer.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A lock that is held over a fork: see the module. Critical sections are short.
pub struct ForkLock<T> {
    is_taken: AtomicBool,
    guarded: UnsafeCell<T>,
}

// SAFETY: only the thread that has the lock reaches `guarded`.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// The guarded value, for the thread that has the lock.
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

    /// Unlocks after the guard was forgotten, by the thread that has the lock or by its copy in a child.
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
