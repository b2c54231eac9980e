//! A block device that a disk was made into, whichever driver it belongs to.

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

/// Of linux/fs.h: has the file system that has a device write all that it holds.
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// Of linux/fs.h: ends a freeze of a file system.
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

/// A block device of a driver that makes disks of what programs give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockNode {
    /// Of the loop driver.
    Loop(LoopNode),
    /// Of the NBD driver.
    Nbd(NbdNode),
}

/// What a node is used for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeUsage {
    /// Nothing.
    None,
    /// It is the node of the place with this root, be its server alive or dead.
    RuntimeDir(PathBuf),
    /// Something of other programs, in words.
    Other(String),
}

impl BlockNode {
    /// The device that `path` names.
    pub fn named(path: &Path) -> Option<Self> {
        LoopNode::named(path).map(Self::Loop).or_else(|| NbdNode::named(path).map(Self::Nbd))
    }

    /// The devices that belong to `place`.
    pub fn of(place: &RuntimeDir) -> io::Result<Vec<Self>> {
        let names = fs::read_dir("/sys/block")?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let nodes = names.filter_map(|name| Self::named(&Path::new("/dev").join(name)));
        Ok(nodes.filter(|node| node.belongs_to(place)).collect())
    }

    /// What it is used for.
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

    /// Whether it belongs to `place`.
    pub fn belongs_to(self, place: &RuntimeDir) -> bool {
        matches!(self.usage(), NodeUsage::RuntimeDir(root) if root == place.root())
    }

    /// Its node.
    pub fn path(self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }

    /// Its directory in sysfs.
    pub fn sysfs(self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }

    fn name(self) -> String {
        match self {
            Self::Loop(node) => format!("loop{}", node.number()),
            Self::Nbd(node) => format!("nbd{}", node.number()),
        }
    }

    /// Its device numbers: its own first, then its partitions'.
    pub fn devices(self) -> Vec<Device> {
        let number = |directory: PathBuf| device_number(&fs::read_to_string(directory.join("dev")).ok()?);
        self.directories().filter_map(number).collect()
    }

    /// Its directory in sysfs, then its partitions'.
    fn directories(self) -> impl Iterator<Item = PathBuf> {
        let inside = fs::read_dir(self.sysfs()).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(self.sysfs()).chain(inside.filter(|directory| directory.join("partition").exists()))
    }

    /// Makes durable what the file systems on it hold, in a child that is waited for no longer than `limit`. The kernel finds
    /// the one that has a device, whoever sees it mounted, but does not tell whether it could, and finds none that has several:
    /// so those on `points` are asked, too. They are thawed first: out of sight one that is frozen stays for ever, as nobody can
    /// thaw it any more, and with it the node.
    ///
    /// # Errors
    /// What one of those on `points` said.
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
                // One that is not frozen says so.
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

    /// Whether what is seen on `point` lies on it, and not something that was mounted over that.
    fn is_seen_on(self, point: &Path) -> bool {
        let mounts = MountEntry::seen_by("self").unwrap_or_default();
        mounts.iter().rfind(|mount| mount.point == point).is_some_and(|mount| mount.is_on(&self.devices()))
    }

    /// Whether the kernel lets nobody else have it for himself: it is mounted, a part of something that is, or a program
    /// has it so. Asked in a child.
    pub fn is_claimed(self, lock: &DirLock) -> bool {
        let Ok(path) = CString::new(self.path().into_os_string().into_vec()) else { return false };
        let asked = child::run(lock, &|| ChildFd::new(&path, libc::O_RDONLY | libc::O_EXCL).map(|_| 0));
        asked.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    }

    /// Gives it up, in a child.
    ///
    /// # Errors
    /// EBUSY if anything holds it for itself: a mount, a partition's mount, swap, another device on top.
    pub fn release(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release(lock),
            Self::Nbd(node) => node.release(lock),
        }
    }

    /// Has it stay when its last user goes, after a [`BlockNode::release`] that somebody has kept from being done.
    pub fn keep(self, lock: &DirLock, place: &RuntimeDir) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.keep(lock, &place.backing()),
            // The driver has let go of our ends already.
            Self::Nbd(_) => Ok(()),
        }
    }

    /// Gives it up even if it is in use, what is in the page cache written back first: it goes with its last user.
    pub fn release_when_closed(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release_when_closed(lock),
            Self::Nbd(node) => node.write_back(lock).and_then(|()| node.cut(lock)),
        }
    }

    /// Gives up what a dead server left, in use or not: it goes with its last user.
    pub fn cut(self, lock: &DirLock) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.release_when_closed(lock),
            Self::Nbd(node) => node.cut(lock),
        }
    }

    /// Takes over the new size of the disk, in a child.
    pub fn grow(self, lock: &DirLock, place: &RuntimeDir, geometry: &Geometry) -> io::Result<()> {
        match self {
            Self::Loop(node) => node.grow(lock, &place.backing()),
            Self::Nbd(node) => node.grow(lock, place.root(), geometry),
        }
    }

    /// Waits until it does not belong to `place` any more; `false` if it still does after `limit`.
    pub fn wait_until_free(self, place: &RuntimeDir, limit: Duration) -> bool {
        comes_within(limit, || !self.belongs_to(place))
    }
}

/// Whether `has_come` is so within `limit`, however long a look takes.
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
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_in_time_where_looks_are_slow() {
        let mut looks = 0;
        let slow = || {
            looks += 1;
            sleep(Duration::from_millis(20));
            false
        };
        assert!(!comes_within(Duration::from_millis(100), slow));
        assert!((1..=6).contains(&looks), "{looks} looks");
        assert!(comes_within(Duration::ZERO, || true));
    }
}
