//! Signals, which are blocked while a thread is inside: a handler could open, fork or jump away in the middle of the
//! code that it interrupted, and wait for a lock that its own thread has.
//!
//! Unsafe because the C library fills local sets.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use libc::sigset_t;

/// Signals that a thread raises itself, also by a system call that its program traps (seccomp); blocked, they would end
/// the program.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSYS];
/// Signals by which users end programs.
const ENDS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

thread_local! {
    /// The [`ENDS`] that only this library blocks, a bit each.
    static OURS: Cell<u8> = const { Cell::new(0) };
}

/// Blocks all signals that can be blocked. Returns the previous set.
pub fn block() -> sigset_t {
    let mut all = MaybeUninit::uninit();
    // SAFETY: the set is filled first.
    let all = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        FAULTS.iter().for_each(|fault| _ = libc::sigdelset(all.as_mut_ptr(), *fault));
        all.assume_init()
    };
    let before = change(libc::SIG_BLOCK, &all);
    OURS.set(ENDS.iter().rev().fold(0, |bits, signal| bits << 1 | u8::from(!has(&before, *signal))));
    before
}

fn has(set: &sigset_t, signal: c_int) -> bool {
    // SAFETY: a set that was filled.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Returns true if this is a handler on a stack of its own, which may be just large enough for handlers and system
/// calls.
pub fn is_on_own_stack() -> bool {
    let mut stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: nothing is set, and the kernel writes to a live value.
    let is_told = unsafe { libc::sigaltstack(ptr::null(), &raw mut stack) } == 0;
    is_told && stack.ss_flags & libc::SS_ONSTACK != 0
}

/// Restores the set from before [`block`].
pub fn restore(before: &sigset_t) {
    OURS.set(0);
    change(libc::SIG_SETMASK, before);
}

/// Runs `work`, which waits for an owner that may be stopped: a signal that ends the program without a handler arrives.
pub fn with_fatal_signals<T>(work: impl FnOnce() -> T) -> T {
    let before = change(libc::SIG_UNBLOCK, &ending());
    let done = work();
    change(libc::SIG_SETMASK, &before);
    done
}

fn ending() -> sigset_t {
    let mut ending = MaybeUninit::uninit();
    // SAFETY: the set is filled first; results are written to a live value, for which all zeros are valid.
    unsafe {
        libc::sigemptyset(ending.as_mut_ptr());
        for (_, signal) in ENDS.into_iter().enumerate().filter(|(bit, _)| OURS.get() >> bit & 1 == 1) {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            let is_told = libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0;
            if is_told && action.assume_init().sa_sigaction == libc::SIG_DFL {
                libc::sigaddset(ending.as_mut_ptr(), signal);
            }
        }
        ending.assume_init()
    }
}

fn change(how: c_int, set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: two sets, one to be read and one to be filled, and a call that cannot fail.
    unsafe {
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}

#[cfg(test)]
mod tests;
