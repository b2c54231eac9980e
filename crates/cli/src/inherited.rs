//! The standard descriptors and the handling of SIGPIPE that this program inherits, read before Rust's runtime changes
//! them. The runtime opens closed standard descriptors to /dev/null, where reads return nothing and writes are lost. It
//! ignores SIGPIPE in this process, and resets SIGPIPE to its default in started programs.
//!
//! Unsafe: a function that the loader calls before `main`, and a function between fork and exec.
#![allow(unsafe_code, reason = "a function before `main`, and one between fork and exec")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::outcome::Outcome;

static INPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);
static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls each function of this section once, before `main`. The function needs only the C library,
// which is ready at that time.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        let is_closed = |fd: &dyn AsFd| rustix::io::fcntl_getfd(fd.as_fd()) == Err(rustix::io::Errno::BADF);
        INPUT_IS_CLOSED.store(is_closed(&io::stdin()), Relaxed);
        OUTPUT_IS_CLOSED.store(is_closed(&io::stdout()), Relaxed);
        let mut found = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call only fills the struct, or leaves its zeros, which are a valid value.
        let found = unsafe {
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), found.as_mut_ptr());
            found.assume_init()
        };
        IGNORES_SIGPIPE.store(found.sa_sigaction == libc::SIG_IGN, Relaxed);
    }
    look
};

/// Returns standard input, or an error if it was closed.
pub fn input() -> Outcome<io::Stdin> {
    match INPUT_IS_CLOSED.load(Relaxed) {
        true => Err("standard input is closed: nothing can be read from it".into()),
        false => Ok(io::stdin()),
    }
}

/// Returns standard output, or an error if it was closed.
pub fn output() -> Outcome<io::Stdout> {
    match OUTPUT_IS_CLOSED.load(Relaxed) {
        true => Err("standard output is closed: nothing can be written to it".into()),
        false => Ok(io::stdout()),
    }
}

/// Makes the program that `command` starts ignore SIGPIPE, if this program was started with SIGPIPE ignored.
pub fn pass_on_sigpipe(command: &mut Command) {
    let ignore = || {
        // SAFETY: a system call without a handler function.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        Ok(())
    };
    if IGNORES_SIGPIPE.load(Relaxed) {
        // SAFETY: `ignore` allocates nothing and takes no lock.
        unsafe { command.pre_exec(ignore) };
    }
}
