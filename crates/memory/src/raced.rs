//! A value that is computed at its first use. Several threads may compute it at once, and the first result stays. No
//! thread waits for another: a child that is forked while a thread of its parent computes the value would wait for
//! ever.
//!
//! Unsafe because the value is read through a pointer.
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

    /// Returns the value, if it was computed.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or what `fill` left there for good.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value, computed by `find` if it was not computed yet.
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
