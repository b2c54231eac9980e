//! The options of attaching a disk, and the check that this machine can attach one.

use std::path::{Path, PathBuf};
use std::thread;

use super::{Error, Result, nbd_node};
use ferrite_fuse::{FUSE, KernelDevice, LOOP};

/// The folder of all links.
pub(super) const LINKS: &str = "/dev/ferrite";

/// The options of an attached disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk's name, unique in `directory`: a file name without control characters or a leading dot.
    pub name: String,
    /// A private directory for the mount, one for each pool, such as `/run/ferrite/POOL-ID`. The server creates it if
    /// needed, and removes it when no disk is attached in it.
    pub directory: PathBuf,
    /// The link that leads to the node; if the link cannot be made, the disk is not attached.
    pub link: PathBuf,
    /// A shorter link to the node, made if no other disk has it.
    pub short: Option<PathBuf>,
    /// Threads that serve the node.
    pub threads: usize,
}

impl Options {
    /// Returns the default options. The link is `/dev/ferrite/NAME`, and the number of threads is the number of cores,
    /// from 2 to 4. With one thread reads would wait behind a flush. On two cores a second thread also measured up to
    /// half faster at depth 32, and more threads gained nothing.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        let name = name.into();
        let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
        Self { link: Path::new(LINKS).join(&name), short: None, name, directory: directory.into(), threads }
    }

    /// Returns the options of a disk in the pool called `pool`, its UUID. The link is `/dev/ferrite/by-pool/UUID/NAME`,
    /// which is unique to the disk. The short link is `/dev/ferrite/NAME`.
    pub fn in_pool(pool: &str, name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        let usual = Self::new(name, directory);
        let link = Path::new(LINKS).join("by-pool").join(pool).join(&usual.name);
        Self { short: Some(usual.link), link, ..usual }
    }
}

/// Checks that this process can attach disks.
///
/// # Errors
/// Returns [`Error::Missing`] with the missing right or device.
pub fn check() -> Result<()> {
    if !ferrite_fuse::is_root() {
        return Err(Error::Missing("only root may".into()));
    }
    if Way::Nbd.is_there() {
        return Ok(());
    }
    match LOOP_WAY.iter().find_map(KernelDevice::missing) {
        Some(missing) => Err(Error::Missing(format!("this kernel or container has no NBD, and {missing}"))),
        None => Ok(()),
    }
}

const LOOP_WAY: [KernelDevice; 2] = [FUSE, LOOP];

/// The mechanism between a node and its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel's own NBD driver: the shorter way, preferred if the kernel has it (Linux 5.14 on).
    Nbd,
    /// A loop device over the one file of a FUSE file system: any kernel has both.
    Loop,
}

impl Way {
    /// Returns a description of one line for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nbd => "by the kernel's NBD driver",
            Self::Loop => "by FUSE and a loop device",
        }
    }

    /// Returns true if this kernel has the mechanism.
    pub(super) fn is_there(self) -> bool {
        match self {
            Self::Nbd => nbd_node::find_driver().is_ok(),
            Self::Loop => LOOP_WAY.iter().all(|device| device.missing().is_none()),
        }
    }
}
