//! Which of its standard descriptors this program was given: those that are closed Rust opens to /dev/null before `main`, where
//! what is read is empty and what is written is gone.
//!
//! Unsafe because what looks before that is called by the loader.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::outcome::Outcome;

static INPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        let is_closed = |fd: &dyn AsFd| rustix::io::fcntl_getfd(fd.as_fd()) == Err(rustix::io::Errno::BADF);
        INPUT_IS_CLOSED.store(is_closed(&io::stdin()), Relaxed);
        OUTPUT_IS_CLOSED.store(is_closed(&io::stdout()), Relaxed);
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
