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
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_child_that_is_forked_while_another_thread_is_finding_finds_by_itself() {
        static CELL: Raced<i32> = Raced::new();
        let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel::<()>());
        let finding = thread::spawn(move || {
            *CELL.get_or(|| {
                begun.send(()).expect("the test listens");
                may_go_on.recv().expect("the test tells");
                1
            })
        });
        has_begun.recv().expect("it begins");
        // SAFETY: the child takes a little memory at most, which the C library lets it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointer is passed; it ends without unwinding, by a signal where it waits.
            unsafe {
                libc::alarm(30);
                libc::_exit(i32::from(*CELL.get_or(|| 2) != 2));
            }
        }
        let mut status = -1;
        // SAFETY: the status is a local that outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "it waits for a thread that it does not have");
        go_on.send(()).expect("it waits");
        assert_eq!(finding.join().expect("it ends"), 1);
    }

    #[test]
    fn what_was_found_first_stays() {
        static CELL: Raced<i32> = Raced::new();
        assert_eq!(CELL.get(), None);
        let slow = CELL.get_or(|| {
            assert_eq!(*CELL.get_or(|| 1), 1, "another one is faster");
            2
        });
        assert_eq!((*slow, *CELL.get_or(|| 3), CELL.get()), (1, 1, Some(&1)));
    }
}
