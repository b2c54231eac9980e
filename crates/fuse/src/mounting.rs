//! The system calls that mount and unmount.
//!
//! Unsafe: `mount`, `umount2` and `geteuid`, which the standard library does not offer.
#![allow(unsafe_code, reason = "mount, umount2, prctl and mlockall")]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The options of a mount.
pub struct MountSpec<'a> {
    /// The source in the kernel's list of mounts.
    pub source: &'a str,
    /// Flags of mount(2), such as `MS_RDONLY`.
    pub flags: libc::c_ulong,
    /// More options of FUSE, each after a comma.
    pub rest: &'a str,
    /// The kind of the root inode.
    pub root: RootKind,
}

/// The kind of the root inode of a FUSE file system. The mount point is of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A folder.
    Folder,
    /// A regular file: the file system is this file.
    File,
}

impl RootKind {
    /// Returns the mode of the root inode until the kernel asks for it.
    fn mode(self) -> u32 {
        match self {
            Self::Folder => libc::S_IFDIR | 0o700,
            Self::File => libc::S_IFREG | 0o600,
        }
    }
}

/// Mounts on `point` with the right to mount, without `fusermount`. Returns the FUSE connection.
///
/// # Errors
/// Returns the kernel's error.
pub fn mount(point: &Path, how: &MountSpec<'_>) -> io::Result<OwnedFd> {
    let connection: File = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    // SAFETY: both calls only return a number.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let fd = connection.as_raw_fd();
    let mode = how.root.mode();
    let options = format!("fd={fd},rootmode={mode:o},user_id={user},group_id={group}{}", how.rest);
    let (options, source) = (CString::new(options)?, CString::new(how.source)?);
    let target = CString::new(point.as_os_str().as_bytes())?;
    let kind = c"fuse.ferrite";
    // SAFETY: all pointers are C strings that live through the call.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), how.flags, options.as_ptr().cast()) };
    if result == 0 { Ok(connection.into()) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts a file system of this process. The kernel aborts the connection first, so the call never waits for the
/// threads that serve it.
///
/// # Errors
/// Returns the kernel's error.
pub fn unmount(point: &Path) -> io::Result<()> {
    unmount_by(point, libc::MNT_FORCE | libc::MNT_DETACH)
}

/// Unmounts a file system without users.
///
/// # Errors
/// Returns the kernel's error: `EBUSY` if the file system is in use.
pub fn unmount_unused(point: &Path) -> io::Result<()> {
    unmount_by(point, 0)
}

/// Aborts the connection of a file system whose server has ended: programs that wait for an answer get an error. If no
/// program uses the file system, the call also unmounts it.
///
/// # Errors
/// Returns the kernel's error.
pub fn cut_off(point: &Path) -> io::Result<()> {
    unmount_by(point, libc::MNT_FORCE)
}

/// Unmounts lazily: the file system disappears now and ends with its last user.
///
/// # Errors
/// Returns the kernel's error.
pub fn unmount_lazily(point: &Path) -> io::Result<()> {
    unmount_by(point, libc::MNT_DETACH)
}

fn unmount_by(point: &Path, flags: libc::c_int) -> io::Result<()> {
    let point = CString::new(point.as_os_str().as_bytes())?;
    // SAFETY: the pointer is a C string that lives through the call.
    let result = unsafe { libc::umount2(point.as_ptr(), flags | libc::UMOUNT_NOFOLLOW) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: the call only returns a number.
    unsafe { libc::geteuid() == 0 }
}

/// Returns true if this process mounts by itself: as root, or with CAP_SYS_ADMIN, as a service has it.
pub fn may_mount() -> bool {
    is_root() || std::fs::read_to_string("/proc/thread-self/status").is_ok_and(|status| has_administrator(&status))
}

/// The bit of CAP_SYS_ADMIN in a set of capabilities.
const ADMINISTRATOR: u64 = 1 << 21;

/// Returns true if `status`, the text of a process's `/proc/PID/status`, has CAP_SYS_ADMIN in effect.
pub fn has_administrator(status: &str) -> bool {
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & ADMINISTRATOR != 0)
}
