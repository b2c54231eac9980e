//! Whether this thread is in here already (LD5): then it was called by what we call ourselves.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{fd_table, real, signals};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Nothing is done directly any more: this process shares what it has with another in a way that cannot be followed.
static OFF: AtomicBool = AtomicBool::new(false);

/// This thread is in here until it is dropped; the program's `errno` is then as it was. Who cancels it waits for that:
/// what it has here it must let go of.
pub struct ReentryGuard {
    errno: c_int,
    cancels: c_int,
    signals: libc::sigset_t,
    _own_thread: PhantomData<*const ()>,
}

/// Goes in; `None` where this thread is in already.
pub fn enter() -> Option<ReentryGuard> {
    if INSIDE.replace(true) {
        return None;
    }
    let (errno, cancels, signals) = (real::errno(), real::block_cancellation(), signals::block());
    Some(ReentryGuard { errno, cancels, signals, _own_thread: PhantomData })
}

pub fn is() -> bool {
    INSIDE.get()
}

pub fn is_off() -> bool {
    OFF.load(Ordering::Relaxed) || fd_table::is_void()
}

/// Whether others may have this process's descriptors.
pub fn is_split() -> bool {
    OFF.load(Ordering::Relaxed)
}

pub fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        real::restore_cancellation(self.cancels);
        real::set_errno(self.errno);
        INSIDE.set(false);
        signals::restore(&self.signals);
    }
}
