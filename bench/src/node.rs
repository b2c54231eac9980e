//! A file system, mounted, for programs to work on: on a disk, in the page cache, or ours.
//!
//! - BN1. This process never touches a mount of its own: a thread that waits for one cannot be killed while the others
//!   that serve it are, and both would stay for ever. Children do it, and live through our end.
//! - BN2. Dropped, everything is unmounted and detached; what a killed experiment left is cleared by the next one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_devnode::{self as attach, Attached, Options};
use ferrite_disk::Disk;
use ferrite_mount::Hollow;

use crate::tree::{Tree, Visible};
use crate::{Error, Result, machine, program};

/// Where the folders of all experiments are.
const ROOT: &str = "/run/ferrite-bench";

/// A file system, and how it is made: no discards, and nothing left to be written later in the background, so that what
/// is measured is the load.
pub struct FileSystem {
    /// What `mount` calls it.
    pub name: &'static str,
    /// The program that makes it.
    pub mkfs: &'static str,
    options: &'static [&'static str],
}

/// The one that applications run on.
pub const EXT4: FileSystem = FileSystem {
    name: "ext4",
    mkfs: "mkfs.ext4",
    options: &[
        "-q",
        "-F",
        "-b",
        "4096",
        "-i",
        "8192",
        "-E",
        "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
        "-O",
        "^metadata_csum",
    ],
};
/// Those before it: the first keeps no journal.
pub const EXT2: FileSystem = FileSystem { name: "ext2", mkfs: "mkfs.ext2", options: EXT_OPTIONS };
pub const EXT3: FileSystem = FileSystem { name: "ext3", mkfs: "mkfs.ext3", options: EXT_OPTIONS };
const EXT_OPTIONS: &[&str] = &["-q", "-F", "-b", "4096", "-i", "8192", "-E", "nodiscard,lazy_itable_init=0"];
/// SGI's.
pub const XFS: FileSystem = FileSystem { name: "xfs", mkfs: "mkfs.xfs", options: &["-q", "-f", "-K"] };
/// It is not made smaller.
const XFS_BYTES_MIN: u64 = 320 << 20;
/// What it keeps for itself: its log has 64 MiB.
const XFS_OWN_BYTES: u64 = 96 << 20;
/// The one that never overwrites; its metadata once, as it was made on an SSD for years.
pub const BTRFS: FileSystem =
    FileSystem { name: "btrfs", mkfs: "mkfs.btrfs", options: &["-q", "-f", "-K", "-m", "single"] };

impl FileSystem {
    /// How large a disk is that has room for `bytes` of files and of what is small.
    pub fn disk_bytes(&self, bytes: u64) -> u64 {
        if self.name == XFS.name { (bytes + XFS_OWN_BYTES).max(XFS_BYTES_MIN) } else { bytes }
    }
}

/// The folder of one experiment's nodes.
#[derive(Debug)]
pub struct Yard(PathBuf);

/// What a node is made of.
pub enum Ground {
    /// A disk of this process, attached as `ferrite up` does.
    Disk(Arc<dyn Disk>),
    /// A file, by the kernel's loop device alone.
    File(PathBuf),
    /// No disk: a file system of the kernel's whose files are in its page cache only.
    PageCache(&'static str),
    /// A file system of a pool of ours.
    Tree(Tree),
    /// A mount that the kernel keeps back writes for, and whose server keeps nothing.
    Hollow,
}

/// A mounted file system.
pub struct Node {
    point: PathBuf,
    file_system: &'static FileSystem,
    mount_options: &'static str,
    base: Base,
}

/// What a node stands on.
enum Base {
    Attached(Box<Attached>),
    File(PathBuf),
    PageCache { kind: &'static str },
    Tree(Box<Visible>),
    Hollow(RefCell<Option<Hollow>>),
}

/// Why nothing can be mounted here.
pub fn missing() -> Option<String> {
    let programs = ["mkfs.ext4", "mount", "umount", "losetup", "sync"];
    let lacking = programs.into_iter().find(|name| program::find(name).is_none());
    attach::check().err().map(|why| why.to_string()).or(lacking.map(|name| format!("there is no {name}")))
}

impl Yard {
    /// A new one.
    pub fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        clear(Path::new(ROOT));
        let name = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let yard = Self(Path::new(ROOT).join(name));
        fs::create_dir_all(yard.points()).map_err(Error::io(format!("making {}", yard.points().display())))?;
        Ok(yard)
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

    /// A node called `name`, which has a file system and is mounted when [`Node::format`] is done.
    pub fn node(&self, name: &str, ground: Ground, mount_options: &'static str) -> Result<Node> {
        let point = self.folder(name)?;
        let base = match ground {
            Ground::File(file) => Base::File(file),
            Ground::Disk(disk) => Base::Attached(Box::new(self.attach(name, disk)?)),
            Ground::PageCache(kind) => Base::PageCache { kind },
            Ground::Tree(tree) => Base::Tree(Box::new(Visible::new(tree, &point))),
            Ground::Hollow => Base::Hollow(RefCell::default()),
        };
        Ok(Node { point, file_system: &EXT4, mount_options, base })
    }

    fn attach(&self, name: &str, disk: Arc<dyn Disk>) -> Result<Attached> {
        let link = self.0.join(format!("{name}.node"));
        let options = Options { link, ..Options::new(name, self.0.join("attached")) };
        let failed = |why: attach::Error| Error::Server { who: format!("attaching {name}"), what: why.to_string() };
        Attached::new(disk, options).map_err(failed)
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // What is still mounted keeps its folder, and is cleared by the next experiment.
        for entry in fs::read_dir(self.points()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(self.points());
        let _ = fs::remove_dir(self.0.join("attached"));
        let _ = fs::remove_dir(&self.0);
        let _ = fs::remove_dir(ROOT);
    }
}

impl Node {
    /// The same with another file system than ext4.
    pub fn of(mut self, file_system: &'static FileSystem) -> Self {
        self.file_system = file_system;
        self
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Makes a new file system and mounts it.
    pub fn format(&self) -> Result<()> {
        self.unmount()?;
        match &self.base {
            Base::Attached(attached) => self.make(attached.device())?,
            Base::File(file) => self.make(file)?,
            Base::PageCache { .. } | Base::Hollow(_) => {}
            Base::Tree(visible) => visible.make()?,
        }
        self.mount()
    }

    fn make(&self, device: &Path) -> Result<()> {
        let FileSystem { mkfs, options, .. } = self.file_system;
        program::run(Command::new(program::find(mkfs).unwrap_or_default()).args(*options).arg(device))
    }

    /// Mounts it anew, so that nothing of it is in the page cache; unless the page cache is all it has.
    pub fn refresh(&self) -> Result<()> {
        if matches!(self.base, Base::PageCache { .. }) {
            return Ok(());
        }
        self.unmount()?;
        self.mount()
    }

    /// Has work done that waits in the background.
    pub fn settle(&self) -> Result<()> {
        if let Base::Tree(visible) = &self.base { visible.settle() } else { Ok(()) }
    }

    fn mount(&self) -> Result<()> {
        match &self.base {
            Base::Attached(attached) => self.mount_device(self.file_system.name, attached.device()),
            Base::PageCache { kind } => self.mount_device(kind, Path::new(kind)),
            Base::Tree(visible) => visible.mount(),
            Base::Hollow(mounted) => {
                let told = Error::io(format!("mounting on {}", self.point.display()));
                *mounted.borrow_mut() = Some(Hollow::start(&self.point, machine::cores().max(2)).map_err(told)?);
                Ok(())
            }
            Base::File(file) => {
                let direct = loop_over(file, "--direct-io=on").or_else(|_| loop_over(file, "--direct-io=off"))?;
                let mounted = self.mount_device(self.file_system.name, Path::new(&direct));
                // While it is mounted this only says that it goes with the mount.
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

    /// Takes it from where it is mounted; all that was written is on the disk.
    pub fn unmount(&self) -> Result<()> {
        match &self.base {
            Base::Tree(visible) => visible.unmount(),
            Base::Hollow(mounted) => {
                let told = Error::io(format!("unmounting {}", self.point.display()));
                mounted.borrow_mut().take().map_or(Ok(()), Hollow::unmount).map_err(told)
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

impl Drop for Node {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = program::run(Command::new("umount").arg("--lazy").arg(&self.point));
        }
        if let Base::Attached(_) = self.base {
            self.base = Base::PageCache { kind: "" };
        }
        let _ = fs::remove_dir(&self.point);
    }
}

/// Mount points at `folder` or in it, the last one first.
fn points(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let named = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    named.filter(|point| point.starts_with(folder)).collect()
}

/// Clears what killed experiments left.
fn clear(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let pid = name.to_str().and_then(|name| name.split('-').next());
        if pid.is_none_or(|pid| Path::new("/proc").join(pid).exists()) {
            continue;
        }
        attach::clear_stale(&path.join("attached"));
        for point in points(&path) {
            let _ = program::run(Command::new("umount").arg("--lazy").arg(point));
        }
        if points(&path).is_empty() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
