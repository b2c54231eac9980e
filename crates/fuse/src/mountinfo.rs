//! The kernel's list of mounts: `/proc/PID/mountinfo`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferrite_memory::MountLine;

/// A device number in the form of stat(2).
pub type Device = u64;

/// One mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount's number.
    pub id: u64,
    /// The number of the mount on which it is mounted.
    below: u64,
    /// The folder of the file system that is visible at the mount point.
    root: PathBuf,
    /// The peer groups of mount propagation: `shared:N` for members, `master:N` for mounts that only receive.
    shares: Vec<String>,
    /// The device number of the file system. btrfs and FUSE use numbers without a device.
    pub device: Device,
    /// The mount point.
    pub point: PathBuf,
    /// The type of the file system, such as `ext4` or `fuse.ferrite`.
    pub kind: String,
    /// The source, as the mounting program named it.
    pub source: PathBuf,
}

impl MountEntry {
    /// Returns the mounts in the namespace of process `pid` (or `self`), in the order of their creation.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read.
    pub fn seen_by(pid: &str) -> io::Result<Vec<Self>> {
        let table = fs::read(format!("/proc/{pid}/mountinfo"))?;
        Ok(table.split(|byte| *byte == b'\n').filter_map(Self::parse).collect())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line = MountLine::parse(line)?;
        Some(Self {
            id: line.id,
            below: line.parent,
            device: line.device(),
            root: line.root,
            shares: line.groups,
            point: line.point,
            kind: line.kind,
            source: line.source,
        })
    }

    /// Returns true if an unmount of `other` unmounts this mount too: both are mounted on the same folder, through two
    /// mounts of `all` in one peer group.
    pub fn goes_with(&self, other: &Self, all: &[Self]) -> bool {
        let below = |mount: &Self| all.iter().find(|it| it.id == mount.below);
        let folder = |under: &Self, mount: &Self| {
            let within = mount.point.strip_prefix(&under.point).ok()?;
            Some((under.device, under.root.join(within)))
        };
        let (Some(mine), Some(others)) = (below(self), below(other)) else { return false };
        let is_shared = |group: &str| [mine.shares_of("shared:"), mine.shares_of("master:")].contains(&Some(group));
        others.shares_of("shared:").is_some_and(is_shared) && folder(mine, self) == folder(others, other)
    }

    fn shares_of(&self, how: &str) -> Option<&str> {
        self.shares.iter().find_map(|group| group.strip_prefix(how))
    }

    /// Returns true if the file system lies on one of `devices`.
    pub fn is_on(&self, devices: &[Device]) -> bool {
        devices.contains(&self.device) || self.source_device().is_some_and(|device| devices.contains(&device))
    }

    /// Returns the device that the source names, if it names one.
    pub fn source_device(&self) -> Option<Device> {
        device_named(&self.source)
    }
}

/// Returns the number of the block device at `path`, if the path [`may_be_a_device`].
pub fn device_named(path: &Path) -> Option<Device> {
    may_be_a_device(path).then(|| block_device(path)).flatten()
}

/// Returns true if `path` lies under `/dev` but not in `/dev/shm`. Any other path could lie on this process's own
/// mount, or on one that never answers, and a `stat` of it could wait forever.
pub fn may_be_a_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// Returns the number of the block device at `path`, or `None` if no block device is there.
pub fn block_device(path: &Path) -> Option<Device> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Parses `major:minor`, as the kernel lists devices.
pub fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests;
