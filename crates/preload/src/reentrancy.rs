//! Whether this thread is inside this library already (LD5): then a function that the library itself calls has called
//! it.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{real, signals, wipe_mark};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// True if no call is direct any more: this process shares its state with another in a way that cannot be followed.
static OFF: AtomicBool = AtomicBool::new(false);

/// Marks this thread as inside until it is dropped; then the program's `errno` is restored. A cancellation waits for
/// that, so that the thread releases what it holds.
pub struct ReentryGuard {
    errno: c_int,
    cancels: c_int,
    signals: libc::sigset_t,
    _own_thread: PhantomData<*const ()>,
}

/// Enters the library; `None` if this thread is inside already.
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
    OFF.load(Ordering::Relaxed) || wipe_mark::is_void()
}

/// Returns true if other processes may have this process's descriptors.
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
