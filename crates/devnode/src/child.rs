//! System calls made by a forked child, so that the server never waits for its own mount.
//!
//! A thread that opens, configures or closes the node waits for the file system that this same process serves. If the
//! process were killed at that moment, the waiting thread would keep the descriptor table alive. The FUSE connection in
//! the table would then never close, and nothing could end the wait: such a process cannot be killed. The child has its
//! own descriptor table without the connection. When the server dies, the connection closes and the child gets an
//! error. The child also holds the lock of the runtime directory, so no other process clears the directory before the
//! child is done.
//!
//! Unsafe: fork and the calls that a child of a threaded process may make.
#![allow(unsafe_code, reason = "fork, and what a forked child may call")]

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::runtime_dir::DirLock;

/// The result of a child's work: a number that the job chooses, or an error number.
pub(super) type ChildResult = Result<i32, i32>;

/// Runs `job` in a child that has no descriptor except `lock` and has all signals blocked, and waits for the child.
/// Only one child runs for a runtime directory at a time. Otherwise a child that opens a device exclusively would find
/// it in use by another child.
///
/// `job` must only make system calls on data that was prepared before: no allocation, no lock, no panic. Another thread
/// may have held the allocator's lock when the process was copied.
pub(super) fn run(lock: &DirLock, job: &dyn Fn() -> ChildResult) -> io::Result<i32> {
    run_for(lock, None, job)
}

/// Runs `job` as [`run`] does, but waits no longer than `limit`, if `limit` is given. A child that takes longer
/// continues unattended.
///
/// # Errors
/// Returns [`io::ErrorKind::TimedOut`] if the child takes longer than `limit`.
pub(super) fn run_for(lock: &DirLock, limit: Option<Duration>, job: &dyn Fn() -> ChildResult) -> io::Result<i32> {
    let _turn = lock.turn();
    let (mut reader, writer) = UnixStream::pair()?;
    reader.set_read_timeout(limit)?;
    let blocked = BlockedSignals::all();
    // SAFETY: the child only makes async-signal-safe calls, then leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(io::Error::last_os_error()),
        0 => work([writer.as_raw_fd(), lock.as_raw_fd()], job),
        _ => {}
    }
    drop((blocked, writer));
    let mut message = [[0; 4]; 2];
    let read = reader.read_exact(message.as_flattened_mut());
    if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        // If no thread can be started, the child stays a zombie until this process ends.
        let _ = thread::Builder::new().spawn(move || reap(pid));
        return Err(io::ErrorKind::TimedOut.into());
    }
    reap(pid);
    read.map_err(|_| io::Error::other("the child process that was to do it was killed"))?;
    match message.map(i32::from_ne_bytes) {
        [0, value] => Ok(value),
        [error, _] => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Runs the child's whole life. A signal handler of the parent never runs here: it could write to a reused descriptor.
fn work([pipe, lock]: [RawFd; 2], job: &dyn Fn() -> ChildResult) -> ! {
    // SAFETY: plain system calls on numbers; the child owns its whole descriptor table.
    let closed = unsafe {
        libc::dup2(pipe, 0);
        libc::dup2(lock, 1);
        libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0)
    };
    let outcome = if closed == 0 { job() } else { Err(errno()) };
    let message = outcome.map_or_else(|error| [error, 0], |value| [0, value]).map(i32::to_ne_bytes);
    // SAFETY: `message` is 8 readable bytes; `_exit` runs no destructor of the parent.
    unsafe {
        libc::write(0, message.as_ptr().cast(), 8);
        libc::_exit(0)
    }
}

fn reap(pid: libc::pid_t) {
    // SAFETY: waits for our own child; a null status is allowed.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } == -1 && errno() == libc::EINTR {}
}

/// Returns this thread's last error number.
pub(super) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Blocks all signals of this thread until dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both calls fill the sets they are given before any is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by `pthread_sigmask`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests;
