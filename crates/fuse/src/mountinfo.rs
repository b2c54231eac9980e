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
mod tests {
    use super::*;

    /// A mount point with a blank in its name is found, and unmounted, under its real name.
    #[test]
    fn reads_a_line_with_escapes_and_optional_fields() {
        let line = br"36 35 7:3 / /mnt/a\040b\134c rw,noatime shared:1 master:2 - ext4 /dev/loop3 rw,errors=continue";
        let mount = MountEntry::parse(line).expect("a whole line");
        assert_eq!(mount.device, libc::makedev(7, 3));
        assert_eq!(mount.point, Path::new(r"/mnt/a b\c"));
        assert_eq!((mount.kind.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/loop3")));
    }

    /// A mount in an exported folder goes with its peers. A mount that was bound elsewhere by hand stays.
    #[test]
    fn what_shares_a_folder_goes_with_it() {
        let table = [
            "1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
            "2 1 8:1 /srv /export rw shared:1 - ext4 /dev/sda1 rw",
            "3 1 8:1 /srv /slave rw master:1 - ext4 /dev/sda1 rw",
            "4 1 8:1 /srv /private rw - ext4 /dev/sda1 rw",
            "5 1 0:50 / /srv/mnt rw shared:9 - fuse.ferrite pool rw",
            "6 2 0:50 / /export/mnt rw shared:9 - fuse.ferrite pool rw",
            "7 3 0:50 / /slave/mnt rw master:9 - fuse.ferrite pool rw",
            "8 4 0:50 / /private/mnt rw shared:9 - fuse.ferrite pool rw",
            "9 1 0:50 / /srv/copy rw shared:9 - fuse.ferrite pool rw",
            "10 99 0:50 / /elsewhere rw shared:9 - fuse.ferrite pool rw",
        ];
        let all: Vec<MountEntry> = table.iter().filter_map(|line| MountEntry::parse(line.as_bytes())).collect();
        let going: Vec<u64> = all.iter().filter(|mount| mount.goes_with(&all[4], &all)).map(|mount| mount.id).collect();
        assert_eq!(going, [5, 6, 7]);
    }

    /// A `stat` of a path on a mount whose server is gone waits forever.
    #[test]
    fn what_may_lie_on_a_mount_is_no_device() {
        assert!(
            ["/dev/sda1", "/dev/mapper/a", "/dev/ferrite/disk0"].iter().all(|path| may_be_a_device(Path::new(path)))
        );
        assert!(
            ["/dev/shm/mnt/file", "/mnt/dev/sda1", "pipe:[7]"].iter().all(|path| !may_be_a_device(Path::new(path)))
        );
    }

    #[test]
    fn lines_cut_short_are_skipped() {
        for line in [&b""[..], b"36 35", b"36 35 7:3 / /mnt rw -", b"36 35 x:y / /mnt rw - ext4 /dev/loop3 rw"] {
            assert_eq!(MountEntry::parse(line), None);
        }
    }
}
