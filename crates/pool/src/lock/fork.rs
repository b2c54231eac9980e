//! Children of fork. [`Origin`] distinguishes an object of the parent, with its locks and grants, from an object of the
//! child.
//! [`ParentOnlyFd`] is a descriptor that the child does not keep: with the parent's lock a child would keep a pool locked
//! after the parent has ended (O1), and with its socket clients would wait for an owner that does not answer.
//!
//! In the child such a descriptor is replaced by one of /dev/null, not closed: a child that drops the parent's objects closes
//! a descriptor of its own.
//!
//! Unsafe because a handler is given to the C library, and a child may make system calls alone.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use ferrite_memory::Raced;

/// Most descriptors at once; an owner has two for each of its pools.
const KEPT_MAX: usize = 128;
/// In the place of a descriptor.
const NONE: RawFd = -1;

static KEPT: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(NONE) }; KEPT_MAX];
/// The number of forks between this process and the one that loaded this code.
static FORKS: AtomicU64 = AtomicU64::new(0);
static WATCHING: Raced<()> = Raced::new();

/// Has [`in_child`] called in every child from now on.
fn watch() {
    // SAFETY: the handler lives as long as this code; a library that is unloaded takes its handlers along. Where two threads
    // give it the second call of it finds nothing, and counts a fork twice, which is one still.
    WATCHING.get_or(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
}

/// The process that made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// [`FORKS`] there.
    forks: u64,
}

impl Origin {
    /// This process.
    pub fn here() -> Self {
        watch();
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Returns true in the process that made the object, false in its children.
    pub fn is_here(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

/// A descriptor that children do not have. Dropped before the descriptor is closed.
#[derive(Debug)]
pub struct ParentOnlyFd {
    fd: RawFd,
    /// The index of the note; `None` beyond the first [`KEPT_MAX`].
    place: Option<usize>,
}

impl ParentOnlyFd {
    /// Keeps `fd` from children from now on.
    pub fn new(fd: BorrowedFd<'_>) -> Self {
        watch();
        let fd = fd.as_raw_fd();
        let note = |kept: &AtomicI32| kept.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        Self { fd, place: KEPT.iter().position(note) }
    }
}

impl Drop for ParentOnlyFd {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // In a child another descriptor may be noted there.
            let _ = KEPT[place].compare_exchange(self.fd, NONE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for kept in &KEPT {
        match kept.swap(NONE, Ordering::Relaxed) {
            NONE => {}
            fd => put_away(fd),
        }
    }
}

/// Replaces `fd` by a descriptor of /dev/null; without a free descriptor `fd` is closed.
fn put_away(fd: RawFd) {
    // SAFETY: the name is a C string literal, and no other pointer is passed; a forked child has `fd` for itself.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if nothing < 0 || libc::dup3(nothing, fd, libc::O_CLOEXEC) < 0 {
            libc::close(fd);
        }
        if nothing >= 0 {
            libc::close(nothing);
        }
    }
}
