//! A value that is found at its first use, by whoever comes. Several threads may find it at once, and the first one's stays:
//! none waits for another, as a child would for ever that is forked while a thread of its parent's is finding it.
//!
//! Unsafe because what was found is read through a pointer.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// See the module. Only for what lives as long as the process: what was found is never let go of.
#[derive(Debug)]
pub struct Raced<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Raced<T> {
    /// Nothing was found yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// What was found, if anything was.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or what `fill` left there for good.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// What was found, by `find` if nothing was yet.
    #[inline]
    pub fn get_or(&self, find: impl FnOnce() -> T) -> &'static T {
        self.get().unwrap_or_else(|| self.find(find))
    }

    #[cold]
    fn find(&self, find: impl FnOnce() -> T) -> &'static T {
        self.fill(find())
    }

    /// `found` was found: it, or what another thread found before.
    pub fn fill(&self, found: T) -> &'static T {
        // One that comes too late is not let go of either: there are few.
        let found: &'static T = Box::leak(Box::new(found));
        let place = ptr::from_ref(found).cast_mut();
        let _ = self.0.compare_exchange(ptr::null_mut(), place, Ordering::AcqRel, Ordering::Relaxed);
        self.get().unwrap_or(found)
    }
}

impl<T: Send + Sync> Default for Raced<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
