//! The kernel's devices that a mount and a node need, and advice if one is missing.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A character device of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelDevice {
    /// The path of the device.
    pub path: &'static str,
    /// The kernel's name of the device, which is also the name of its module.
    pub module: &'static str,
    /// The device number, equal on every Linux.
    number: u64,
}

/// The device for serving FUSE file systems.
pub const FUSE: KernelDevice = KernelDevice { path: "/dev/fuse", module: "fuse", number: libc::makedev(10, 229) };
/// The device that makes loop devices.
pub const LOOP: KernelDevice =
    KernelDevice { path: "/dev/loop-control", module: "loop", number: libc::makedev(10, 237) };

impl KernelDevice {
    /// Returns the reason why this user cannot use the device, with the command that repairs it.
    pub fn missing(&self) -> Option<String> {
        self.missing_at(Path::new(self.path))
    }

    fn missing_at(&self, path: &Path) -> Option<String> {
        let Self { path: name, module, number } = *self;
        let container = format!("in a container, start that with `--device {name}`");
        let absent = format!("{name} is missing: as root `modprobe {module}`; {container}");
        let opened = match fs::metadata(path) {
            Ok(found) if found.file_type().is_char_device() && found.rdev() == number => {
                File::options().read(true).write(true).open(path)
            }
            Ok(_) => return Some(format!("{name} is not the kernel's {module} device: {container}")),
            Err(_) => return Some(absent),
        };
        match opened.err()?.kind() {
            ErrorKind::PermissionDenied => {
                Some(format!("{name} is closed to this user: as root `chmod 666 {name}`; {container}"))
            }
            _ => Some(absent),
        }
    }
}

#[cfg(test)]
mod tests;
