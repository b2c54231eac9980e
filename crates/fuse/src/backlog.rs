//! The limit of written data that the kernel holds for a mount.
//!
//! A FUSE file system gets a hundredth of the share of other file systems, because its server may stop to answer.
//! Programs that write more wait for the server. The servers of this project copy to memory that is allocated, so they
//! need none to answer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Device;

/// The folder in which the kernel shows the limits of file systems, by device number.
const LIMITS: &str = "/sys/class/bdi";

/// Allows the kernel to hold as much written data for the mount with number `device` as for any other file system.
///
/// # Errors
/// Returns the kernel's error: only root may change the limit.
pub fn widen_backlog(device: Device) -> io::Result<()> {
    let limits = folder(device);
    // Kernels before 6.2 have no such file, and hold the mount to its own share.
    let strict = fs::write(limits.join("strict_limit"), "0");
    fs::write(limits.join("max_ratio"), "100").and(strict)
}

fn folder(device: Device) -> PathBuf {
    Path::new(LIMITS).join(format!("{}:{}", libc::major(device), libc::minor(device)))
}
