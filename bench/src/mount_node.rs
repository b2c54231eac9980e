//! Mounted file systems that programs work on: on a disk, in the page cache, or ours.
//!
//! - BN1. This process never touches a mount of its own: if its serving threads are killed, a thread that waits for the
//!   mount can never be killed. Child processes touch the mount, and survive this process.
//! - BN2. Dropping a node unmounts and detaches it; the next experiment clears the mounts of a killed one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_devnode::{self as attach, Attached, Options};
use ferrite_disk::Disk;
use ferrite_mount::Hollow;

use crate::pool_tree::{PoolTree, ServedTree};
use crate::scratch::of_killed;
use crate::{Error, Result, machine, program};

/// The folder of all experiments.
const ROOT: &str = "/run/ferrite-bench";

/// A file system of the kernel, made without discards and without later writes in the background, so that only the load is
/// measured.
pub struct KernelFs {
    /// The name for `mount`.
    pub name: &'static str,
    /// The program that makes the file system.
    pub mkfs: &'static str,
    /// The options of that program, separated by spaces.
    options: &'static str,
}

/// The file system that applications run on.
pub const EXT4: KernelFs = KernelFs {
    name: "ext4",
    mkfs: "mkfs.ext4",
    options: "-q -F -b 4096 -i 8192 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 -O ^metadata_csum",
};
/// The predecessor of ext3, without a journal.
pub const EXT2: KernelFs = KernelFs { name: "ext2", mkfs: "mkfs.ext2", options: EXT_OPTIONS };
/// The predecessor of ext4.
pub const EXT3: KernelFs = KernelFs { name: "ext3", mkfs: "mkfs.ext3", options: EXT_OPTIONS };
const EXT_OPTIONS: &str = "-q -F -b 4096 -i 8192 -E nodiscard,lazy_itable_init=0";
/// XFS, without discards.
pub const XFS: KernelFs = KernelFs { name: "xfs", mkfs: "mkfs.xfs", options: "-q -f -K" };
/// The smallest size of XFS in bytes.
const XFS_BYTES_MIN: u64 = 320 << 20;
/// The bytes that XFS keeps for itself; its log has 64 MiB.
const XFS_OWN_BYTES: u64 = 96 << 20;
/// The file system that never overwrites, with one copy of its metadata: for years the default on an SSD.
pub const BTRFS: KernelFs = KernelFs { name: "btrfs", mkfs: "mkfs.btrfs", options: "-q -f -K -m single" };

impl KernelFs {
    /// Bytes of a disk with room for `bytes` of files and metadata.
    pub fn disk_bytes(&self, bytes: u64) -> u64 {
        if self.name == XFS.name { (bytes + XFS_OWN_BYTES).max(XFS_BYTES_MIN) } else { bytes }
    }
}

/// The folder of the mounts of one experiment.
#[derive(Debug)]
pub struct MountRoot(PathBuf);

/// The source of a node.
pub enum NodeSource {
    /// A disk of this process, attached to a `/dev` node.
    Disk(Arc<dyn Disk>),
    /// A file on the kernel's loop device.
    File(PathBuf),
    /// A file system of the kernel without a disk, by its name for `mount`.
    PageCache(&'static str),
    /// A file system of a pool of ours.
    Tree(PoolTree),
    /// A cached mount whose server keeps nothing.
    Hollow,
}

/// A mounted file system.
pub struct MountNode {
    point: PathBuf,
    file_system: &'static KernelFs,
    mount_options: &'static str,
    base: NodeBase,
}

/// The source of a node that is in use.
enum NodeBase {
    Attached(Box<Attached>),
    File(PathBuf),
    PageCache { kind: &'static str },
    Tree(Box<ServedTree>),
    Hollow(RefCell<Option<Hollow>>),
}

/// The reason why nothing can be mounted here, or `None`.
pub fn missing() -> Option<String> {
    let programs = ["mkfs.ext4", "mount", "umount", "losetup", "sync"];
    let lacking = programs.into_iter().find(|name| program::find(name).is_none());
    attach::check().err().map(|why| why.to_string()).or(lacking.map(|name| format!("there is no {name}")))
}

impl MountRoot {
    /// A new folder.
    pub fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        clear(Path::new(ROOT));
        let name = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mount_root = Self(Path::new(ROOT).join(name));
        fs::create_dir_all(mount_root.points())
            .map_err(Error::io(format!("making {}", mount_root.points().display())))?;
        Ok(mount_root)
    }

    fn points(&self) -> PathBuf {
        self.0.join("mounts")
    }

    /// A folder called `name` to mount on.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let point = self.points().join(name);
        fs::create_dir(&point).map_err(Error::io(format!("making {}", point.display())))?;
        Ok(point)
    }

    /// A node called `name`, which has a file system and is mounted when [`MountNode::format`] is done.
    pub fn node(&self, name: &str, source: NodeSource, mount_options: &'static str) -> Result<MountNode> {
        let point = self.folder(name)?;
        let base = match source {
            NodeSource::File(file) => NodeBase::File(file),
            NodeSource::Disk(disk) => NodeBase::Attached(Box::new(self.attach(name, disk)?)),
            NodeSource::PageCache(kind) => NodeBase::PageCache { kind },
            NodeSource::Tree(tree) => NodeBase::Tree(Box::new(ServedTree::new(tree, &point))),
            NodeSource::Hollow => NodeBase::Hollow(RefCell::default()),
        };
        Ok(MountNode { point, file_system: &EXT4, mount_options, base })
    }

    /// Attaches `disk` to a `/dev` node called `name`.
    pub fn attach(&self, name: &str, disk: Arc<dyn Disk>) -> Result<Attached> {
        let link = self.0.join(format!("{name}.node"));
        let options = Options { link, ..Options::new(name, self.0.join("attached")) };
        Attached::new(disk, options).map_err(|why| Error::server(format!("attaching {name}"), why.to_string()))
    }
}

impl Drop for MountRoot {
    fn drop(&mut self) {
        // A mount that remains keeps its folder; the next experiment clears both.
        for entry in fs::read_dir(self.points()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(self.points());
        let _ = fs::remove_dir(self.0.join("attached"));
        let _ = fs::remove_dir(&self.0);
        let _ = fs::remove_dir(ROOT);
    }
}

impl MountNode {
    /// The node with another file system than ext4.
    pub fn of(mut self, file_system: &'static KernelFs) -> Self {
        self.file_system = file_system;
        self
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Makes a new file system and mounts it.
    pub fn format(&self) -> Result<()> {
        self.unmount()?;
        match &self.base {
            NodeBase::Attached(attached) => self.make(attached.device())?,
            NodeBase::File(file) => self.make(file)?,
            NodeBase::PageCache { .. } | NodeBase::Hollow(_) => {}
            NodeBase::Tree(served_tree) => served_tree.make()?,
        }
        self.mount()
    }

    fn make(&self, device: &Path) -> Result<()> {
        let KernelFs { mkfs, options, .. } = self.file_system;
        program::run(program::command(mkfs).args(options.split(' ')).arg(device))
    }

    /// Remounts the file system, so that nothing of it is in the page cache, unless it has no disk.
    pub fn refresh(&self) -> Result<()> {
        if matches!(self.base, NodeBase::PageCache { .. }) {
            return Ok(());
        }
        self.unmount()?;
        self.mount()
    }

    /// Finishes work of the background.
    pub fn finish_background(&self) -> Result<()> {
        if let NodeBase::Tree(served_tree) = &self.base { served_tree.finish_background() } else { Ok(()) }
    }

    /// Destages all content of ours that may leave its pool.
    pub fn drain(&self) -> Result<()> {
        if let NodeBase::Tree(served_tree) = &self.base { served_tree.drain() } else { Ok(()) }
    }

    fn mount(&self) -> Result<()> {
        match &self.base {
            NodeBase::Attached(attached) => self.mount_device(self.file_system.name, attached.device()),
            NodeBase::PageCache { kind } => self.mount_device(kind, Path::new(kind)),
            NodeBase::Tree(served_tree) => served_tree.mount(),
            NodeBase::Hollow(mounted) => {
                let failed = Error::io(format!("mounting on {}", self.point.display()));
                *mounted.borrow_mut() = Some(Hollow::start(&self.point, machine::cores().max(2)).map_err(failed)?);
                Ok(())
            }
            NodeBase::File(file) => {
                let direct = loop_over(file, "--direct-io=on").or_else(|_| loop_over(file, "--direct-io=off"))?;
                let mounted = self.mount_device(self.file_system.name, Path::new(&direct));
                // The loop device of a mounted file system is detached when it is unmounted.
                program::run(Command::new("losetup").args(["--detach", &direct]))?;
                mounted
            }
        }
    }

    fn mount_device(&self, kind: &str, device: &Path) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", self.mount_options]).arg(device).arg(&self.point);
        program::run(&mut mount)
    }

    /// Unmounts the file system; all that was written is on the disk.
    pub fn unmount(&self) -> Result<()> {
        match &self.base {
            NodeBase::Tree(served_tree) => served_tree.unmount(),
            NodeBase::Hollow(mounted) => {
                let failed = Error::io(format!("unmounting {}", self.point.display()));
                mounted.borrow_mut().take().map_or(Ok(()), Hollow::unmount).map_err(failed)
            }
            _ if points(&self.point).is_empty() => Ok(()),
            _ => program::run(Command::new("umount").arg(&self.point)),
        }
    }
}

fn loop_over(file: &Path, direct: &str) -> Result<String> {
    let made = program::output(Command::new("losetup").args(["--find", "--show", direct]).arg(file))?;
    Ok(made.trim().to_owned())
}

impl Drop for MountNode {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = program::run(Command::new("umount").arg("--lazy").arg(&self.point));
        }
        if let NodeBase::Attached(_) = self.base {
            self.base = NodeBase::PageCache { kind: "" };
        }
        let _ = fs::remove_dir(&self.point);
    }
}

/// The mount points at `folder` or in it, the last one first.
fn points(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let named = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    named.filter(|point| point.starts_with(folder)).collect()
}

/// Clears the mounts and folders of killed experiments.
fn clear(root: &Path) {
    for path in of_killed(root, "") {
        attach::clear_stale(&path.join("attached"));
        for point in points(&path) {
            let _ = program::run(Command::new("umount").arg("--lazy").arg(point));
        }
        if points(&path).is_empty() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests;
