//! A device of the kernel's own NBD driver: `/dev/nbdN`.
//!
//! The driver gets one end of each of a few socket pairs; threads of this process answer at the other ends. The driver
//! is configured by netlink, not by ioctl, so no process needs to keep the device open. Written data leaves the page
//! cache when the last user closes the device, like on any disk. The device outlives a killed server and carries the
//! path of the runtime directory (`/sys/block/nbdN/backend`). By this path the next server recognizes it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ferrite_disk::Geometry;

use super::child;
use super::child_fd::ChildFd;
use super::genl::{self, GenlMessage, GenlRequest};
use super::runtime_dir::DirLock;
use ferrite_nbd as nbd;

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_BYTES: u16 = 3;
const TIMEOUT_SECONDS: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const BACKEND: u16 = 10;
const SOCKET: u16 = 1;
const SOCKET_FD: u16 = 1;

/// Time after which the driver sends a request again over another connection, or fails the request if no connection is
/// left. If no next server starts, the requests under way when the server was killed wait this long. The time suffices
/// for a flush of much data to a slow file.
const PATIENCE: Duration = Duration::from_secs(120);

/// One device of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NbdNode(u32);

/// Finds the driver. Loads its module if the module exists and is not loaded.
///
/// # Errors
/// Returns an error if this kernel has no NBD driver.
pub(super) fn find_driver() -> io::Result<u16> {
    genl::family("nbd")
        .or_else(|_| load_module().and_then(|()| genl::family("nbd")))
        .map_err(io::Error::from_raw_os_error)
}

fn load_module() -> Result<(), i32> {
    let mut modprobe = Command::new("modprobe");
    modprobe.args(["--quiet", "nbd"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if Path::new("/proc/modules").exists() && modprobe.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(libc::ENODEV)
}

impl NbdNode {
    /// Makes a free device a disk of this shape, over `sockets`; its identity is `place`.
    ///
    /// # Errors
    /// Returns the error of the driver. Returns [`io::ErrorKind::Unsupported`] if the driver does not keep identities
    /// (before Linux 5.14): such a device could not be cleared after a kill.
    pub fn connect(place: &Path, geometry: &Geometry, sockets: &[UnixStream]) -> io::Result<Self> {
        let message = GenlMessage::new(find_driver()?, CONNECT)
            .long(SIZE_BYTES, geometry.size)
            .long(BLOCK_BYTES, geometry.sector_bytes.into())
            .long(TIMEOUT_SECONDS, PATIENCE.as_secs())
            .long(SERVER_FLAGS, nbd::agreed_flags(geometry).into())
            .text(BACKEND, name(place)?)
            .nested(SOCKETS, |list| sockets.iter().fold(list, add_socket));
        let index = message.finish().exchange(INDEX).map_err(io::Error::from_raw_os_error)?;
        let node = Self(index.cast_unsigned());
        if node.backend().as_deref() == Some(place) {
            return Ok(node);
        }
        node.disconnect()?.exchange(INDEX).map_err(io::Error::from_raw_os_error)?;
        Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's NBD driver keeps no identities"))
    }

    /// Returns the device that `path` names.
    pub fn named(path: &Path) -> Option<Self> {
        path.to_str()?.strip_prefix("/dev/nbd")?.parse().ok().map(Self)
    }

    /// Returns the number of the device.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Returns the identity of the device, which it keeps until it is disconnected and its last user has closed it.
    pub fn backend(self) -> Option<PathBuf> {
        let text = fs::read_to_string(self.sysfs().join("backend")).ok()?;
        Some(text.trim_end_matches('\n').into()).filter(|path: &PathBuf| path.is_absolute())
    }

    /// Returns true if the device is connected.
    pub fn is_connected(self) -> bool {
        self.sysfs().join("pid").exists()
    }

    fn sysfs(self) -> PathBuf {
        format!("/sys/block/nbd{}", self.0).into()
    }

    /// Makes the kernel look for partitions, in a child: the kernel reads from this process.
    pub fn scan(self, lock: &DirLock) -> io::Result<()> {
        let path = self.c_path()?;
        child::run(lock, &|| ChildFd::new(&path, libc::O_RDONLY).map(|_| 0)).map(drop)
    }

    /// Releases the device, in a child: the kernel writes the page cache back to this process.
    ///
    /// # Errors
    /// Returns EBUSY if any user holds the device exclusively: a mount, a partition's mount, swap, another device on
    /// top.
    pub fn release(self, lock: &DirLock) -> io::Result<()> {
        let (path, disconnect) = (self.c_path()?, self.disconnect()?);
        child::run(lock, &|| {
            let node = ChildFd::new(&path, libc::O_RDONLY | libc::O_EXCL)?;
            node.flush()?;
            disconnect.exchange(INDEX)
        })
        .map(drop)
    }

    /// Makes the content of the page cache durable, in a child.
    pub fn write_back(self, lock: &DirLock) -> io::Result<()> {
        let path = self.c_path()?;
        child::run(lock, &|| ChildFd::new(&path, libc::O_RDONLY)?.flush()).map(drop)
    }

    /// Disconnects the device even if it is in use. Its users get errors from now on, beginning with those whose
    /// requests a killed server left unanswered.
    pub fn cut(self, lock: &DirLock) -> io::Result<()> {
        let disconnect = self.disconnect()?;
        child::run(lock, &|| disconnect.exchange(INDEX)).map(drop)
    }

    /// Sets a new size, in a child: the driver waits for requests that are under way.
    pub fn grow(self, lock: &DirLock, place: &Path, geometry: &Geometry) -> io::Result<()> {
        let message = GenlMessage::new(find_driver()?, RECONFIGURE)
            .word(INDEX, self.0)
            .text(BACKEND, name(place)?)
            .long(SIZE_BYTES, geometry.size)
            .long(BLOCK_BYTES, geometry.sector_bytes.into())
            .finish();
        child::run(lock, &|| message.exchange(INDEX)).map(drop)
    }

    fn disconnect(self) -> io::Result<GenlRequest> {
        Ok(GenlMessage::new(find_driver()?, DISCONNECT).word(INDEX, self.0).finish())
    }

    fn c_path(self) -> io::Result<CString> {
        Ok(CString::new(format!("/dev/nbd{}", self.0))?)
    }
}

fn add_socket(list: GenlMessage, socket: &UnixStream) -> GenlMessage {
    list.nested(SOCKET, |item| item.word(SOCKET_FD, socket.as_raw_fd().cast_unsigned()))
}

/// Returns the identity of a runtime directory in the form that the driver keeps: a line of text.
fn name(place: &Path) -> io::Result<&str> {
    place.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path that is no text"))
}
