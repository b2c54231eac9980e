//! A block device that shows a disk, independent of its driver.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ferrite_disk::Geometry;
use rustix::fs::{Mode, OFlags, open, syncfs};
use rustix::io::Errno;

use super::child;
use super::child_fd::ChildFd;
use super::loop_node::LoopNode;
use super::nbd_node::NbdNode;
use super::runtime_dir::{DirLock, RuntimeDir};
use ferrite_fuse::{Device, MountEntry, device_number};

/// A request of linux/fs.h: makes the file system on a device write all its data.
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// A request of linux/fs.h: ends a freeze of a file system.
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

/// A block device of a driver that makes disks from programs' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockNode {
    /// A device of the loop driver.
    Loop(LoopNode),
    /// A device of the NBD driver.
    Nbd(NbdNode),
}

/// The use of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeUsage {
    /// The node is not in use.
    None,
    /// The node belongs to the runtime directory with this root, whether its server is alive or dead.
    RuntimeDir(PathBuf),
    /// The node serves other programs, described in words.
    Other(String),
}

impl BlockNode {
    /// Returns the device that `path` names.
    pub fn named(path: &Path) -> Option<Self> {
        LoopNode::named(path).map(Self::Loop).or_else(|| NbdNode::named(path).map(Self::Nbd))
    }

    /// Returns the devices that belong to `place`.
    pub fn of(place: &RuntimeDir) -> io::Result<Vec<Self>> {
        let names = fs::read_dir("/sys/block")?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let nodes = names.filter_map(|name| Self::named(&Path::new("/dev").join(name)));
        Ok(nodes.filter(|node| node.belongs_to(place)).collect())
    }

    /// Returns the use of the device.
    pub fn usage(self) -> NodeUsage {
        match self {
            Self::Loop(node) => match node.backing() {
                None => NodeUsage::None,
                Some(file) => RuntimeDir::root_over(&file).map_or_else(
                    || NodeUsage::Other(format!("the loop device over {}", file.display())),
                    NodeUsage::RuntimeDir,
                ),
            },
            Self::Nbd(node) => match node.backend() {
                Some(place) => NodeUsage::RuntimeDir(place),
                None if node.is_connected() => NodeUsage::Other("an NBD device of another program".into()),
                None => NodeUsage::None,
            },
        }
    }

    /// Returns true if the device belongs to `place`.
    pub fn belongs_to(self, place: &RuntimeDir) -> bool {
        matches!(self.usage(), NodeUsage::RuntimeDir(root) if root == place.root())
    }

    /// Returns the path of the device node.
    pub fn path(self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }

    /// Returns the directory of the device in sysfs.
    pub fn sysfs(self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }

    fn name(self) -> String {
        match self {
            Self::Loop(node) => format!("loop{}", node.number()),
            Self::Nbd(node) => format!("nbd{}", node.number()),
        }
    }

    /// Returns the device numbers: first the number of the device, then the numbers of its partitions.
    pub fn devices(self) -> Vec<Device> {
        let number = |directory: PathBuf| device_number(&fs::read_to_string(directory.join("dev")).ok()?);
        self.directories().filter_map(number).collect()
    }

    /// Returns the sysfs directory of the device, then the directories of its partitions.
    fn directories(self) -> impl Iterator<Item = PathBuf> {
        let inside = fs::read_dir(self.sysfs()).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(self.sysfs()).chain(inside.filter(|directory| directory.join("partition").exists()))
    }

    /// Makes the data of the file systems on the device durable, in a child, and waits for the child no longer than
    /// `limit`. The kernel finds a file system on one device in any mount namespace, but does not report whether it
    /// could write. The kernel finds no file system that has several devices, so the child also syncs the file systems
    /// on `points`. They are thawed first: after a lazy unmount no program can thaw a frozen file system, which would
    /// then stay forever, and the node with it.
    ///
    /// # Errors
    /// Returns the error of a file system on `points`.
    pub fn save_file_systems(self, lock: &DirLock, points: &[PathBuf], limit: Duration) -> io::Result<()> {
        let c_path = |path: PathBuf| CString::new(path.into_os_string().into_vec());
        let nodes = self.directories().filter_map(|directory| Some(Path::new("/dev").join(directory.file_name()?)));
        let nodes = nodes.map(c_path).collect::<Result<Vec<_>, _>>()?;
        let seen = points.iter().filter(|point| self.is_seen_on(point)).cloned();
        let seen = seen.map(c_path).collect::<Result<Vec<_>, _>>()?;
        let points = points.iter().cloned().map(c_path).collect::<Result<Vec<_>, _>>()?;
        let write_back = |point: &CString| {
            let root = open(point, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            root.and_then(syncfs).map(|()| 0).map_err(Errno::raw_os_error)
        };
        let job = || {
            for point in &seen {
                // A file system that is not frozen returns an error, which is ignored.
                let _ = ChildFd::new(point, libc::O_RDONLY).and_then(|root| root.control(FITHAW));
            }
            for node in &nodes {
                // A partition may have no node.
                let _ = ChildFd::new(node, libc::O_RDONLY).and_then(|node| node.control(BLKFLSBUF));
            }
            points.iter().map(write_back).fold(Ok(0), Result::and)
        };
        child::run_for(lock, Some(limit), &job).map(drop)
    }

    /// Returns true if `point` shows a file system on this device, and not another one mounted over it.
    fn is_seen_on(self, point: &Path) -> bool {
        let mounts = MountEntry::seen_by("self").unwrap_or_default();
        mounts.iter().rfind(|mount| mount.point == point).is_some_and(|mount| mount.is_on(&self.devices()))
    }

    /// Returns true if the kernel refuses an exclusive open: the device is mounted, is part of a mounted device, or
    /// another program has it open exclusively. The check runs in a child.
    pub fn is_claimed(self, lock: &DirLock) -> bool {
        let Ok(path) = CString::new(self.path().into_os_string().into_vec()) else { return false };
        let asked = child::run(lock, &|| ChildFd::new(&path, libc::O_RDONLY | libc::O_EXCL).map(|_| 0));
        asked.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    }

    /// Releases the device, in a child.
    ///
    /// # Errors
    /// Returns EBUSY if any user holds the device exclusively: a mount, a partition's mount, swap, another device on
    /// top.
    pub fn release(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release(lock),
            Self::Nbd(node) => node.release(lock),
        }
    }

    /// Keeps the device when its last user closes it, after another user made a [`BlockNode::release`] fail.
    pub fn keep(self, lock: &DirLock, place: &RuntimeDir) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.keep(lock, &place.backing()),
            // The driver has closed the socket ends of this process already.
            Self::Nbd(_) => Ok(()),
        }
    }

    /// Releases the device even if it is in use, after writing back the page cache: it goes with its last user.
    pub fn release_when_closed(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release_when_closed(lock),
            Self::Nbd(node) => node.write_back(lock).and_then(|()| node.cut(lock)),
        }
    }

    /// Disconnects the device of a dead server, in use or not: it goes with its last user.
    pub fn cut(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release_when_closed(lock),
            Self::Nbd(node) => node.cut(lock),
        }
    }

    /// Updates the device to the new size of the disk, in a child.
    pub fn grow(self, lock: &DirLock, place: &RuntimeDir, geometry: &Geometry) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.grow(lock, &place.backing()),
            Self::Nbd(node) => node.grow(lock, place.root(), geometry),
        }
    }

    /// Waits until the device does not belong to `place` any more. Returns false if it still does after `limit`.
    pub fn wait_until_free(self, place: &RuntimeDir, limit: Duration) -> bool {
        comes_within(limit, || !self.belongs_to(place))
    }
}

/// Returns true if `has_come` becomes true within `limit`, however long one check takes.
fn comes_within(limit: Duration, mut has_come: impl FnMut() -> bool) -> bool {
    const PAUSE: Duration = Duration::from_millis(2);
    let until = Instant::now() + limit;
    loop {
        if has_come() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
