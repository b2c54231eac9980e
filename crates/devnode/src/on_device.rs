//! The check if a path lies, at any depth, on a given device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::loop_node::LoopNode;
use ferrite_fuse::{Device, MountEntry, block_device, device_number};

/// Returns true if the file or directory at `path` is stored on the block device at `device`. If `path` does not exist,
/// the nearest existing directory above it counts. The check follows partitions, device mapper and loop devices. A pool
/// on its own disk would wait for itself, so the caller must refuse it.
///
/// The file systems under a loop device are found by name without a system call on them, because the caller may serve
/// one of them.
///
/// # Errors
/// Returns an error if `device` is not a block device, or if `/proc` or the path cannot be read.
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

/// Returns the devices of the mount that contains `path`, a real path: of the mounts with the longest name, the one
/// mounted last.
fn under_path(path: &Path, mounts: &[MountEntry]) -> Vec<Device> {
    let over = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let nearest = over.max_by_key(|mount| mount.point.as_os_str().len());
    nearest.map_or_else(Vec::new, |mount| mount.source_device().into_iter().chain([mount.device]).collect())
}

/// Returns the devices under `device`: the disk of a partition, the parts of a composed device, or the devices under a
/// loop device's file.
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
