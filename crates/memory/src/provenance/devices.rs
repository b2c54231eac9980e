//! Block devices, down to the disks.

use std::fs;
use std::path::{Path, PathBuf};

use super::{MemoryOrigin, Survives, System, line, name, too_deep};
use crate::mountinfo::{self, MountLine};

/// Names of disks that keep flushed data, without the letter or number of each.
const DISKS: [&str; 6] = ["dasd", "hd", "mmcblk", "sd", "vd", "xvd"];
/// Names of devices whose content is memory.
const RAM: [&str; 3] = ["nullb", "ram", "zram"];
/// Names of devices whose server decides what survives.
const SERVED: [&str; 5] = ["drbd", "nbd", "rbd", "rnbd", "ublkb"];

impl System {
    /// Returns the origin of the block device `major:minor`.
    pub(super) fn device(&self, major: u32, minor: u32) -> MemoryOrigin {
        self.block_at(self.resolved(&format!("sys/dev/block/{major}:{minor}")))
    }

    /// Returns the weakest origin of all devices of a btrfs. The mounted device identifies the others.
    pub(super) fn btrfs(&self, mount: &MountLine) -> MemoryOrigin {
        let Some(mounted) = self.named(&mount.source) else { return self.block_at(None) };
        let all = fs::read_dir(self.root.join("sys/fs/btrfs")).into_iter().flatten().flatten();
        let devices = all
            .map(|one| links(&one.path().join("devices")))
            .find(|devices| devices.iter().any(|device| device.canonicalize().is_ok_and(|found| found == mounted)));
        match devices {
            Some(devices) => self.least_of(&devices),
            None => MemoryOrigin::not_known("devices that /sys/fs/btrfs does not list"),
        }
    }

    fn block_at(&self, folder: Option<PathBuf>) -> MemoryOrigin {
        folder.map_or_else(|| MemoryOrigin::not_known("a device that /sys does not list"), |folder| self.block(&folder))
    }

    /// Returns the folder in `/sys` of the block device whose node is at `path`.
    fn named(&self, path: &Path) -> Option<PathBuf> {
        let node = self.below_root(path).canonicalize().ok()?;
        let name = node.strip_prefix(self.root.join("dev")).ok()?.to_str()?.replace('/', "!");
        self.resolved(&format!("sys/class/block/{name}"))
    }

    fn least_of(&self, devices: &[PathBuf]) -> MemoryOrigin {
        let all = devices.iter().map(|device| self.block_at(device.canonicalize().ok()));
        all.reduce(MemoryOrigin::least).unwrap_or_else(|| self.block_at(None))
    }

    /// Returns the origin of the block device whose folder in `/sys` is `folder`.
    fn block(&self, folder: &Path) -> MemoryOrigin {
        if !self.may_look() {
            return too_deep();
        }
        if folder.join("partition").exists() {
            return self.block_at(folder.parent().map(Path::to_owned));
        }
        let (slaves, name) = (links(&folder.join("slaves")), name(folder));
        let layer = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        if !slaves.is_empty() {
            return self.least_of(&slaves).below(layer);
        }
        match layer {
            "loop" => self.backing_file(folder).below("loop device"),
            _ if name.starts_with("pmem") => self.region(folder).unwrap_or_else(|| nothing_known(layer)),
            _ if name.starts_with("nvme") => nvme(folder, &name),
            _ => disk(folder, &name, layer),
        }
    }

    /// Returns the origin of the file, or the device, behind a loop device.
    fn backing_file(&self, folder: &Path) -> MemoryOrigin {
        let Some(backing) = line(&folder.join("loop/backing_file")) else {
            return MemoryOrigin::not_known("a file that /sys does not name");
        };
        let backing = Path::new(&backing);
        match self.named(backing) {
            Some(device) => self.block(&device),
            None => self.path(backing, &mountinfo::read(&self.root)),
        }
    }
}

fn disk(folder: &Path, name: &str, layer: &str) -> MemoryOrigin {
    if RAM.contains(&layer) {
        return MemoryOrigin::no(format!("{layer}, a disk of memory"));
    }
    if SERVED.contains(&layer) {
        return MemoryOrigin::not_known(format!("{layer}, whose server decides"));
    }
    let within = |word: &str| folder.iter().any(|part| part.to_string_lossy().starts_with(word));
    if within("pseudo_") || within("vdpasim") {
        return MemoryOrigin::no("a simulated disk, which is memory");
    }
    if within("vduse") {
        return MemoryOrigin::not_known("vduse, whose server decides");
    }
    if within("session") || within("tcm_loop") {
        return MemoryOrigin::not_known("a SCSI target, whose server decides");
    }
    let is_disk = DISKS.iter().any(|known| {
        name.strip_prefix(known).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_alphanumeric()))
    });
    if is_disk { kept(name) } else { nothing_known(layer) }
}

/// Returns the origin of an NVMe drive, which is a disk if its controllers are in this machine.
fn nvme(folder: &Path, name: &str) -> MemoryOrigin {
    let Some(above) = folder.parent() else { return nothing_known("nvme") };
    let controllers = links(above).into_iter().chain([above.to_owned()]);
    let transports: Vec<String> = controllers.filter_map(|controller| line(&controller.join("transport"))).collect();
    if transports.is_empty() || transports.iter().any(|transport| transport != "pcie") {
        return MemoryOrigin::not_known("NVMe beyond this machine's PCI Express, whose target decides");
    }
    kept(name)
}

fn kept(name: &str) -> MemoryOrigin {
    MemoryOrigin::both(Survives::Yes, format!("{name}, a disk that keeps what was flushed"))
}

fn nothing_known(layer: &str) -> MemoryOrigin {
    MemoryOrigin::not_known(format!("{layer}, a device of which Ferrite knows nothing"))
}

/// Returns the entries of `folder`, sorted by name.
fn links(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path()).collect();
    all.sort();
    all
}
