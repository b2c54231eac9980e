//! The provenance of a medium, and the failures that it survives because of that. [`System`] reads
//! `/proc/self/mountinfo` and `/sys`, from the file system down to the disk or the persistent memory.
//!
//! ```text
//! file -> mount -> file system ---> memory (tmpfs, ...)                                         no
//!                        |     \--> a server, or a file system that is not known                not known
//!                        v
//!                      device -> slaves, backing file -> ... -> disk                            yes, up to the last flush
//!                                                         \---> RAM disk                        no
//! device DAX, MAP_SYNC --------> region of memory: by its provider and persistence domain
//! ```
//!
//! If several devices lie below one, the weakest of them counts. If an entry is missing or malformed, the answer is not
//! known.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use crate::mountinfo::{self, MountLine};
use crate::{Claim, Survival, Survives};

mod devices;
mod regions;
#[cfg(test)]
mod tests;

/// Devices and mounts that are visited for one medium; more of them are taken for a cycle.
const LOOKS_MAX: u32 = 256;

/// The reason why media that the kernel keeps survive process crashes.
pub(crate) const KEPT_BY_KERNEL: &str = "the kernel keeps what a process stored";

/// File systems whose files are memory.
const MEMORY: [&str; 5] = ["tmpfs", "ramfs", "hugetlbfs", "devtmpfs", "rootfs"];
/// File systems whose files lie on the disks below them. All of them forward flushes to the disks.
const ON_ONE_DISK: [&str; 4] = ["ext2", "ext3", "ext4", "xfs"];
/// File systems whose server decides what survives.
const SERVED: [&str; 14] = [
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "lustre", "ncpfs", "nfs", "nfs4", "smb3",
    "virtiofs",
];
/// Options that keep flushes from the disk, or put part of the file system elsewhere.
const UNSAFE: [&str; 5] = ["nobarrier", "barrier=0", "logdev", "rtdev", "journal_path"];

/// The part of a machine that describes its media: `/proc` and `/sys`.
pub(crate) struct System {
    root: PathBuf,
    looks: Cell<u32>,
}

/// The answers about one layer and all layers below it. The reasons begin with the layer's name.
#[derive(Clone, Debug)]
struct MemoryOrigin {
    kernel_crash: Claim,
    power_loss: Claim,
}

impl MemoryOrigin {
    fn both(survives: Survives, why: impl Into<String>) -> Self {
        let claim = Claim::new(survives, why);
        Self { kernel_crash: claim.clone(), power_loss: claim }
    }

    fn no(why: impl Into<String>) -> Self {
        Self::both(Survives::No, why)
    }

    fn not_known(why: impl Into<String>) -> Self {
        Self::both(Survives::NotKnown, why)
    }

    /// Returns the origin of `layer`, which lies on this origin.
    fn below(self, layer: &str) -> Self {
        self.map(|why| format!("{layer} on {why}"))
    }

    /// Returns the worse of two answers for each failure.
    fn least(self, other: Self) -> Self {
        let worse = |one: Claim, other: Claim| if other.survives < one.survives { other } else { one };
        Self {
            kernel_crash: worse(self.kernel_crash, other.kernel_crash),
            power_loss: worse(self.power_loss, other.power_loss),
        }
    }

    fn map(self, change: impl Fn(String) -> String) -> Self {
        let change = |claim: Claim| Claim { why: change(claim.why), ..claim };
        Self { kernel_crash: change(self.kernel_crash), power_loss: change(self.power_loss) }
    }

    fn survival(self) -> Survival {
        let Self { kernel_crash, power_loss } = self.map(|why| format!("it lies in {why}"));
        Survival { process_crash: Claim::new(Survives::Yes, KEPT_BY_KERNEL), kernel_crash, power_loss }
    }
}

impl System {
    /// Returns the machine whose `/proc` and `/sys` lie below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.canonicalize().unwrap_or_else(|_| root.to_owned()), looks: Cell::new(0) }
    }

    /// Returns the failures that the block device `major:minor` survives.
    pub fn block_device(&self, major: u32, minor: u32) -> Survival {
        self.device(major, minor).survival()
    }

    /// Returns the failures that a file in mount number `mount` survives.
    pub fn file(&self, mount: Option<u64>) -> Survival {
        let mounts = mountinfo::read(&self.root);
        let found = mounts.iter().find(|one| Some(one.id) == mount);
        let origin = found.map_or_else(
            || MemoryOrigin::not_known("a mount that /proc/self/mountinfo does not list"),
            |mount| self.mount(mount, &mounts),
        );
        origin.survival()
    }

    /// Returns the failures that the device DAX with the number `major:minor` survives.
    pub fn device_dax(&self, major: u32, minor: u32) -> Survival {
        let folder = self.resolved(&format!("sys/dev/char/{major}:{minor}"));
        let origin =
            folder.map_or_else(|| MemoryOrigin::not_known("a device that /sys does not list"), |at| self.dax(&at));
        origin.survival()
    }

    fn mount(&self, mount: &MountLine, mounts: &[MountLine]) -> MemoryOrigin {
        if !self.may_look() {
            return too_deep();
        }
        let kind = mount.kind.as_str();
        let main = kind.split('.').next().unwrap_or(kind);
        if MEMORY.contains(&kind) {
            return MemoryOrigin::no(format!("{kind}, which is memory"));
        }
        if SERVED.contains(&main) {
            return MemoryOrigin::not_known(format!("{kind}, whose server decides"));
        }
        if let Some(option) = mount.all_options().find(|it| UNSAFE.iter().any(|known| it.starts_with(known))) {
            return MemoryOrigin::not_known(format!(
                "{kind} with the option {}",
                option.split('=').next().unwrap_or(option)
            ));
        }
        match kind {
            _ if ON_ONE_DISK.contains(&kind) => self.device(mount.major, mount.minor).below(kind),
            "btrfs" => self.btrfs(mount).below(kind),
            "overlay" => self.overlay(mount, mounts).below(kind),
            _ => MemoryOrigin::not_known(format!("{kind}, a file system of which Ferrite knows nothing")),
        }
    }

    /// Returns the origin of an overlay: its upper layer holds all writes, and a volatile overlay syncs nothing.
    fn overlay(&self, mount: &MountLine, mounts: &[MountLine]) -> MemoryOrigin {
        if mount.all_options().any(|option| option == "volatile" || option == "fsync=volatile") {
            return MemoryOrigin::no("an upper layer that is not synced (volatile)");
        }
        let upper = mount.all_options().find_map(|option| option.strip_prefix("upperdir="));
        upper.map_or_else(|| MemoryOrigin::not_known("no upper layer"), |upper| self.path(Path::new(upper), mounts))
    }

    /// Returns the origin of the file or folder `path`. It has to exist: the path may belong to another root.
    fn path(&self, path: &Path, mounts: &[MountLine]) -> MemoryOrigin {
        let is_there = path.is_absolute() && self.below_root(path).symlink_metadata().is_ok();
        let holder = is_there.then(|| mountinfo::holder(mounts, path)).flatten();
        holder.map_or_else(
            || MemoryOrigin::not_known("a folder or file that is not visible here"),
            |mount| self.mount(mount, mounts),
        )
    }

    /// Counts a visit to a layer; returns false if there were too many.
    fn may_look(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() <= LOOKS_MAX
    }

    fn below_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the target of `path` below the root, or `None` if that is not below the root.
    fn resolved(&self, path: &str) -> Option<PathBuf> {
        self.root.join(path).canonicalize().ok().filter(|found| found.starts_with(&self.root))
    }
}

fn too_deep() -> MemoryOrigin {
    MemoryOrigin::not_known("more layers than Ferrite follows")
}

/// Returns the first line of the file at `path`.
fn line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let first = text.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(first).into_owned())
}

/// Returns the name of the folder at `path`.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
