//! Whether a path lies, however deep down, on a given device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::loop_node::LoopNode;
use ferrite_fuse::{Device, MountEntry, block_device, device_number};

/// Whether the file or directory at `path` (or the nearest directory above it that exists) is stored on the block
/// device at `device`, through partitions, device mapper and loop devices too. A pool on its own disk would wait for
/// itself: it must be refused.
///
/// The file systems under a loop device are found by name and never asked, since one may be served by the caller.
///
/// # Errors
/// `device` is no block device, or `/proc` or the path cannot be read.
pub fn lies_on(path: &Path, device: &Path) -> io::Result<bool> {
    let device = fs::canonicalize(device)?;
    let wanted = block_device(&device)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no device", device.display())))?;
    let mounts = MountEntry::seen_by("self")?;
    let path = existing(path)?;
    let mut open = block_device(&path).map_or_else(|| under_path(&path, &mounts), |device| vec![device]);
    let mut seen = Vec::new();
    while let Some(device) = open.pop() {
        if device == wanted {
            return Ok(true);
        }
        if !seen.contains(&device) {
            seen.push(device);
            open.extend(under_device(device, &mounts));
        }
    }
    Ok(false)
}

fn existing(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let found = path.ancestors().find_map(|above| fs::canonicalize(above).ok());
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The devices of the mount that `path`, a real path, lies in: the one mounted last of those with the longest name.
fn under_path(path: &Path, mounts: &[MountEntry]) -> Vec<Device> {
    let over = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let nearest = over.max_by_key(|mount| mount.point.as_os_str().len());
    nearest.map_or_else(Vec::new, |mount| mount.source_device().into_iter().chain([mount.device]).collect())
}

/// The devices that `device` is made of: its disk if it is a partition, its parts, the place of a loop device's file.
fn under_device(device: Device, mounts: &[MountEntry]) -> Vec<Device> {
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let Ok(directory) = fs::canonicalize(link) else { return Vec::new() };
    let number = |directory: &Path| device_number(&fs::read_to_string(directory.join("dev")).ok()?);
    let disk = directory.parent().filter(|_| directory.join("partition").exists()).and_then(number);
    let parts = fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
    let parts = parts.filter_map(|part| number(&part.path()));
    let file = directory.file_name().and_then(|name| LoopNode::named(&Path::new("/dev").join(name))?.backing());
    disk.into_iter().chain(parts).chain(file.into_iter().flat_map(|file| under_path(&file, mounts))).collect()
}
