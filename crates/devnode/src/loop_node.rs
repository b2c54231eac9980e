//! A loop device over a file: `/dev/loopN`.
//!
//! `LO_FLAGS_AUTOCLEAR` is not set. With it the kernel would detach the device at the first close by any program,
//! unless this process kept the device open. A killed process that closes the device could wait for its own dead file
//! system.
//!
//! Unsafe: the ioctls of the loop driver (linux/loop.h).
#![allow(unsafe_code, reason = "ioctls of the loop driver")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

use super::child::{self, ChildResult};
use super::child_fd::{ChildFd, answer};
use super::runtime_dir::DirLock;

const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_SET_STATUS64: libc::Ioctl = 0x4C04;
const LOOP_SET_CAPACITY: libc::Ioctl = 0x4C07;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopStatus {
    unused_before: [u64; 5],
    unused_words: [u32; 3],
    flags: u32,
    file_name: [u8; 64],
    unused_after: [u64; 14],
}

impl LoopStatus {
    /// Returns the status of a device over all of `backing`, which gives the device its name.
    fn new(flags: u32, backing: &CStr) -> Self {
        let file_name = first_bytes(backing);
        Self { unused_before: [0; 5], unused_words: [0; 3], flags, file_name, unused_after: [0; 14] }
    }
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_bytes: u32,
    status: LoopStatus,
    reserved: [u64; 8],
}

/// The argument of an ioctl of the loop driver.
trait LoopIoctl {
    /// The request that reads this type.
    const REQUEST: libc::Ioctl;
}

impl LoopIoctl for LoopStatus {
    const REQUEST: libc::Ioctl = LOOP_SET_STATUS64;
}

impl LoopIoctl for LoopConfig {
    const REQUEST: libc::Ioctl = LOOP_CONFIGURE;
}

const _: () = assert!(size_of::<LoopStatus>() == 232 && size_of::<LoopConfig>() == 304);

/// The properties of a new loop device.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopShape {
    /// Sector size in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// True if the device refuses writes.
    pub read_only: bool,
}

/// One loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopNode(u32);

impl LoopNode {
    /// Binds a free loop device to `backing`, in a child.
    pub fn bind(lock: &DirLock, backing: &Path, shape: LoopShape) -> io::Result<Self> {
        let backing = CString::new(backing.as_os_str().as_bytes())?;
        let number = child::run(lock, &|| bind(&backing, shape))?;
        Ok(Self(number.cast_unsigned()))
    }

    /// Returns the loop device that `path` names.
    pub fn named(path: &Path) -> Option<Self> {
        let number = path.to_str()?.strip_prefix("/dev/loop")?;
        number.parse().ok().map(Self)
    }

    /// Returns the number of the device.
    pub fn number(self) -> u32 {
        self.0
    }

    fn sysfs(self) -> PathBuf {
        format!("/sys/block/loop{}", self.0).into()
    }

    /// Returns the file under the device, if the device is bound.
    pub fn backing(self) -> Option<PathBuf> {
        let mut path = fs::read(self.sysfs().join("loop/backing_file")).ok()?;
        path.truncate(path.trim_ascii_end().len());
        let live = path.strip_suffix(b" (deleted)").map_or(path.len(), <[u8]>::len);
        path.truncate(live);
        Some(std::ffi::OsString::from_vec(path).into())
    }

    /// Returns true if reads and writes bypass the page cache of the file.
    pub fn is_direct(self) -> bool {
        fs::read(self.sysfs().join("loop/dio")).is_ok_and(|text| text.starts_with(b"1"))
    }

    /// Releases the device, in a child.
    ///
    /// # Errors
    /// Returns EBUSY if any user holds the device exclusively: a mount, a partition's mount, swap, another device on
    /// top.
    pub fn release(self, lock: &DirLock) -> io::Result<()> {
        let path = self.c_path()?;
        let clear = |flags| match clear(&path, flags) {
            Err(libc::ENXIO) => Ok(0),
            other => other,
        };
        child::run(lock, &|| clear(libc::O_EXCL)).map(drop)
    }

    /// Releases the device even if it is in use: it goes when its last user closes it.
    pub fn release_when_closed(self, lock: &DirLock) -> io::Result<()> {
        let path = self.c_path()?;
        child::run(lock, &|| clear(&path, 0)).map(drop)
    }

    /// Keeps the device, in a child, when its last user closes it, after another user made a [`LoopNode::release`]
    /// fail. A device that is no longer over `backing` is not touched.
    pub fn keep(self, lock: &DirLock, backing: &Path) -> io::Result<()> {
        let (path, file) = (self.c_path()?, CString::new(backing.as_os_str().as_bytes())?);
        let backing_file = CString::new(self.sysfs().join("loop/backing_file").into_os_string().into_vec())?;
        match child::run(lock, &|| keep(&path, &file, &backing_file)) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Updates the device to the grown size of `backing`, in a child.
    pub fn grow(self, lock: &DirLock, backing: &Path) -> io::Result<()> {
        let (path, backing) = (self.c_path()?, CString::new(backing.as_os_str().as_bytes())?);
        child::run(lock, &|| grow(&path, &backing)).map(drop)
    }

    fn c_path(self) -> io::Result<CString> {
        Ok(CString::new(format!("/dev/loop{}", self.0))?)
    }
}

/// Binds a free device. Another process may bind a free device between the query and the call; then the next one is
/// tried.
fn bind(backing: &CStr, shape: LoopShape) -> ChildResult {
    let access = if shape.read_only { libc::O_RDONLY } else { libc::O_RDWR };
    let file = ChildFd::new(backing, access)?;
    let control = ChildFd::new(c"/dev/loop-control", libc::O_RDWR)?;
    for _ in 0..100 {
        let number = control.control(LOOP_CTL_GET_FREE)?;
        let node = ChildFd::new(name(number, &mut [0; 24]), access)?;
        match configure(&node, &file, backing, shape) {
            Err(libc::EBUSY) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(number),
        }
    }
    Err(libc::EBUSY)
}

fn configure(node: &ChildFd, file: &ChildFd, backing: &CStr, shape: LoopShape) -> ChildResult {
    let read_only = if shape.read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let status = LoopStatus::new(LO_FLAGS_DIRECT_IO | LO_FLAGS_PARTSCAN | read_only, backing);
    let fd = file.number().cast_unsigned();
    control(node, &LoopConfig { fd, block_bytes: shape.sector_bytes, status, reserved: [0; 8] })
}

/// Keeps a device. Of the flags of a device the driver clears only `LO_FLAGS_AUTOCLEAR`, which makes the device go.
fn keep(path: &CStr, backing: &CStr, backing_file: &CStr) -> ChildResult {
    let node = ChildFd::new(path, libc::O_RDONLY)?;
    // From here on no other server can get the device, because this process has it open.
    if is_over(backing_file, backing)? { control(&node, &LoopStatus::new(0, backing)) } else { Ok(0) }
}

/// Returns true if the sysfs file at `backing_file` names `backing`.
fn is_over(backing_file: &CStr, backing: &CStr) -> Result<bool, i32> {
    let mut text = [0; libc::PATH_MAX as usize];
    let read =
        open(backing_file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).and_then(|file| read(&file, &mut text));
    let read = read.map_err(Errno::raw_os_error)?;
    Ok(text[..read].strip_suffix(b"\n") == Some(backing.to_bytes()))
}

fn control<T: LoopIoctl>(node: &ChildFd, argument: &T) -> ChildResult {
    // SAFETY: the kernel reads the struct of this request, which the asserted sizes say this is.
    answer(unsafe { libc::ioctl(node.number(), T::REQUEST, std::ptr::from_ref(argument)) })
}

fn clear(path: &CStr, flags: i32) -> ChildResult {
    ChildFd::new(path, libc::O_RDONLY | flags)?.control(LOOP_CLR_FD)
}

/// Updates the size of the device. The query for the file's size makes the kernel fetch it again before the loop device
/// reads it.
fn grow(path: &CStr, backing: &CStr) -> ChildResult {
    let file = ChildFd::new(backing, libc::O_RDONLY)?;
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the struct or fails.
    answer(unsafe { libc::fstat(file.number(), found.as_mut_ptr()) })?;
    ChildFd::new(path, libc::O_RDONLY)?.control(LOOP_SET_CAPACITY)
}

/// Returns the name shown for the device, cut to the field's size; sysfs has the full name.
fn first_bytes(path: &CStr) -> [u8; 64] {
    let mut field = [0; 64];
    for (to, from) in field[..63].iter_mut().zip(path.to_bytes()) {
        *to = *from;
    }
    field
}

/// Returns `/dev/loopN`, without the allocation that a forked child may not make.
fn name(number: i32, text: &mut [u8; 24]) -> &CStr {
    use std::io::Write;
    let mut rest = &mut text[..23];
    let _ = write!(rest, "/dev/loop{number}");
    CStr::from_bytes_until_nul(text).unwrap_or(c"/dev/loop-none")
}
