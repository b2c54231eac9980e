//! The private FUSE mount under a node: mounting, serving, unmounting.
//!
//! Unsafe: `mount`, `umount2`, `prctl` and `mlockall`, which the standard library does not offer.
#![allow(unsafe_code, reason = "mount, umount2, prctl and mlockall")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::{self, JoinHandle};

use fuser::{Config, Filesystem, Session, SessionACL};

use super::child;
use super::runtime_dir::DirLock;
use ferrite_fuse::{MountSpec, PanicGuard, mount, unmount};

/// `PR_SET_IO_FLUSHER` of linux/prctl.h: allocations of this thread never wait for a disk, which this process may
/// serve.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// A mounted FUSE file system and the threads that answer for it.
#[derive(Debug)]
pub(super) struct FuseServer {
    thread: JoinHandle<io::Result<()>>,
}

impl FuseServer {
    /// Mounts `export` on `point` as `how` says, without rights of its files, and serves it with `threads` threads. The
    /// kernel admits other users only if `how` has `allow_other`.
    ///
    /// On an error nothing stays mounted.
    pub fn start(export: impl Filesystem, point: &Path, how: &MountSpec<'_>, threads: usize) -> io::Result<Self> {
        let flags = how.flags | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let connection = mount(point, &MountSpec { flags, ..*how })?;
        let start = || {
            let mut config = Config::default();
            config.n_threads = Some(threads);
            config.clone_fd = threads > 1;
            let session = Session::from_fd(PanicGuard::new(export), connection, SessionACL::All, config)?;
            thread::Builder::new().name("ferrite-attach".into()).spawn(move || serve(session))
        };
        start().map(|thread| Self { thread }).inspect_err(|_| drop(unmount(point)))
    }

    /// Returns true if the threads have ended: the file system is unmounted everywhere.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the threads, which end when the file system is unmounted, and drops the disk.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that serves the node panicked")))
    }
}

/// Serves the session. The threads that `run` starts inherit the flags set here.
fn serve<F: Filesystem>(session: Session<PanicGuard<F>>) -> io::Result<()> {
    answer_under_pressure();
    session.run()
}

/// Allows this thread, and the threads that it starts, to allocate without waiting for a disk that they may have to
/// serve.
pub(super) fn answer_under_pressure() {
    // SAFETY: sets a flag of this thread. A refusal costs only safety under memory pressure.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Locks this process in memory: fetching one of its pages could need a disk that the process serves. The kernel locks
/// pages when they are touched, so a sparse pool stays sparse.
pub(super) fn lock_memory() -> io::Result<()> {
    // SAFETY: the call changes how this process's pages are kept, not their content.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts, lazily and in a child, file systems that lie on the node of this process. Their write-back waits for this
/// process.
pub(super) fn unmount_in_child(lock: &DirLock, points: Vec<std::path::PathBuf>) -> io::Result<()> {
    let points = points.iter().rev().map(|point| CString::new(point.as_os_str().as_bytes()));
    let points = points.collect::<Result<Vec<_>, _>>()?;
    child::run(lock, &|| {
        for point in &points {
            // SAFETY: a C string that lives through the call.
            unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
        }
        Ok(0)
    })
    .map(drop)
}
