//! How much of what programs write the kernel may keep back for a mount.
//!
//! A FUSE file system gets a hundredth of what others get, lest a server that does not answer holds memory for ever; a
//! program that writes more is made to wait, and `--cached` is no faster than its server. Ours copies to memory that is
//! there already, and needs none to answer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ferrite_fuse::Device;

/// Where the kernel keeps the limits of file systems, by device number.
const LIMITS: &str = "/sys/class/bdi";

/// Allows the kernel to keep back as much for the mount with number `device` as for any other file system. Only root
/// may.
pub(super) fn widen(device: Device) -> io::Result<()> {
    let limits = folder(device);
    // Kernels before 6.2 cannot be told, and hold the mount to its own share.
    let strict = fs::write(limits.join("strict_limit"), "0");
    fs::write(limits.join("max_ratio"), "100").and(strict)
}

fn folder(device: Device) -> PathBuf {
    Path::new(LIMITS).join(format!("{}:{}", libc::major(device), libc::minor(device)))
}
