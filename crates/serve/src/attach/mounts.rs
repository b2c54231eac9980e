//! What is mounted where: `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferrite_fs::direct::unescaped;

/// A device number, as `stat` gives it.
pub(crate) type Device = u64;

/// One mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Of the file system; btrfs and FUSE have numbers that belong to no device.
    pub device: Device,
    /// Where.
    pub point: PathBuf,
    /// Its kind, such as `ext4` or `fuse.ferrite`.
    pub kind: String,
    /// What was mounted, as the mounter called it.
    pub source: PathBuf,
}

impl Mount {
    /// The mounts `pid` (or `self`) sees, in the order they were made.
    pub fn seen_by(pid: &str) -> io::Result<Vec<Self>> {
        let table = fs::read(format!("/proc/{pid}/mountinfo"))?;
        Ok(table.split(|byte| *byte == b'\n').filter_map(Self::parse).collect())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        Some(Self {
            device: device_number(std::str::from_utf8(fields.get(2)?).ok()?)?,
            point: path(fields.get(4)?),
            kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
            source: path(fields.get(dash + 2)?),
        })
    }

    /// Whether its file system lies on one of `devices`.
    pub fn is_on(&self, devices: &[Device]) -> bool {
        devices.contains(&self.device) || self.source_device().is_some_and(|device| devices.contains(&device))
    }

    /// The device its source names. Only names under `/dev` are looked at: any other could lie on our own mount.
    pub fn source_device(&self) -> Option<Device> {
        self.source.starts_with("/dev").then(|| block_device(&self.source)).flatten()
    }
}

/// The number of the block device at `path`, if it is one.
pub(crate) fn block_device(path: &Path) -> Option<Device> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Parses `major:minor`.
pub(crate) fn device_number(text: &str) -> Option<Device> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescaped(field)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount point with a blank in its name is found, and unmounted, under its real name.
    #[test]
    fn reads_a_line_with_escapes_and_optional_fields() {
        let line = br"36 35 7:3 / /mnt/a\040b\134c rw,noatime shared:1 master:2 - ext4 /dev/loop3 rw,errors=continue";
        let mount = Mount::parse(line).expect("a whole line");
        assert_eq!(mount.device, libc::makedev(7, 3));
        assert_eq!(mount.point, Path::new(r"/mnt/a b\c"));
        assert_eq!((mount.kind.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/loop3")));
    }

    #[test]
    fn lines_cut_short_are_skipped() {
        for line in [&b""[..], b"36 35", b"36 35 7:3 / /mnt rw -", b"36 35 x:y / /mnt rw - ext4 /dev/loop3 rw"] {
            assert_eq!(Mount::parse(line), None);
        }
    }
}
