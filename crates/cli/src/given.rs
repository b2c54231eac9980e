//! What this program was given by who started it, looked at before Rust's runtime changes it: standard descriptors that are
//! closed it opens to /dev/null, where what is read is empty and what is written is gone; SIGPIPE it ignores, and has at its
//! default in all that is started.
//!
//! Unsafe: a function that the loader calls before `main`, and what is done between fork and exec.
#![allow(unsafe_code)]

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

// SAFETY: the loader calls what stands in this section once each, before `main`; nothing in here needs more than the C
// library, which is ready by then.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        let is_closed = |fd: &dyn AsFd| rustix::io::fcntl_getfd(fd.as_fd()) == Err(rustix::io::Errno::BADF);
        INPUT_IS_CLOSED.store(is_closed(&io::stdin()), Relaxed);
        OUTPUT_IS_CLOSED.store(is_closed(&io::stdout()), Relaxed);
        let mut found = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call changes nothing and fills the struct, or leaves it as it is: zeros are one, too.
        let found = unsafe {
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), found.as_mut_ptr());
            found.assume_init()
        };
        IGNORES_SIGPIPE.store(found.sa_sigaction == libc::SIG_IGN, Relaxed);
    }
    look
};

/// Standard input, which something is to be read from.
pub fn input() -> Outcome<io::Stdin> {
    match INPUT_IS_CLOSED.load(Relaxed) {
        true => Err("standard input is closed: nothing can be read from it".into()),
        false => Ok(io::stdin()),
    }
}

/// Standard output, which what was asked for is to be written to.
pub fn output() -> Outcome<io::Stdout> {
    match OUTPUT_IS_CLOSED.load(Relaxed) {
        true => Err("standard output is closed: nothing can be written to it".into()),
        false => Ok(io::stdout()),
    }
}

/// Has the program that `command` starts ignore SIGPIPE, if this one was started so.
pub fn pass_on_sigpipe(command: &mut Command) {
    let ignore = || {
        // SAFETY: a system call, which is given no function of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        Ok(())
    };
    if IGNORES_SIGPIPE.load(Relaxed) {
        // SAFETY: `ignore` allocates nothing and takes no lock.
        unsafe { command.pre_exec(ignore) };
    }
}
