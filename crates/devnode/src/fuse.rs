//! The private FUSE mount under a node: mounting, serving, unmounting.
//!
//! Unsafe: `mount`, `umount2`, `prctl` and `mlockall`, which the standard library does not offer.
#![allow(unsafe_code, reason = "mount, umount2, prctl and mlockall")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::{self, JoinHandle};

use fuser::{Config, Session, SessionACL};

use super::child;
use super::export::DiskFile;
use super::runtime_dir::DirLock;
use ferrite_fuse::{MountSpec, PanicGuard, mount, unmount};

/// `PR_SET_IO_FLUSHER` of linux/prctl.h: allocations of this thread never wait for a disk, which may be ours.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// A mounted FUSE file system and the threads that answer for it.
#[derive(Debug)]
pub(super) struct FuseServer {
    thread: JoinHandle<io::Result<()>>,
}

impl FuseServer {
    /// Mounts `export` on `point` and serves it with `threads` threads.
    ///
    /// On an error nothing stays mounted.
    pub fn start(export: DiskFile, point: &Path, threads: usize) -> io::Result<Self> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let connection = mount(point, &MountSpec { source: "ferrite", flags, rest: "" })?;
        let start = || {
            let mut config = Config::default();
            config.n_threads = Some(threads);
            config.clone_fd = threads > 1;
            let session = Session::from_fd(PanicGuard(export), connection, SessionACL::Owner, config)?;
            thread::Builder::new().name("ferrite-attach".into()).spawn(move || serve(session))
        };
        start().map(|thread| Self { thread }).inspect_err(|_| drop(unmount(point)))
    }

    /// Waits for the threads, which end when the file system is unmounted, and gives back the disk.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that serves the node panicked")))
    }
}

/// The threads that `run` starts inherit what is set here.
fn serve(session: Session<PanicGuard<DiskFile>>) -> io::Result<()> {
    answer_under_pressure();
    session.run()
}

/// Lets this thread, and those it starts, allocate without waiting for a disk that they may have to answer for.
pub(super) fn answer_under_pressure() {
    // SAFETY: sets a flag of this thread. A refusal costs only safety under memory pressure.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Keeps this process in memory: fetching a page of it back could need a disk that it serves. Pages are locked as
/// they are touched, so a sparse pool stays sparse.
pub(super) fn lock_memory() -> io::Result<()> {
    // SAFETY: changes how this process's pages are kept, not what they hold.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes file systems that lie on our own node out of sight, in a child: writing back what they hold waits for us.
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
