//! How a disk is attached, and whether it can be.

use std::path::{Path, PathBuf};
use std::thread;

use super::{Error, Result, nbd_node};
use ferrite_fuse::{FUSE, KernelDevice, LOOP};

/// The folder of all links.
pub(super) const LINKS: &str = "/dev/ferrite";

/// How a disk is attached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk's name, unique in `directory`: a file name without control characters or a leading dot.
    pub name: String,
    /// A private directory for the mount, one for each pool, such as `/run/ferrite/POOL-ID`. It is made if need be,
    /// and removed when nothing is attached in it.
    pub directory: PathBuf,
    /// The link that leads to the node; without it the disk is not attached.
    pub link: PathBuf,
    /// A shorter link to it, if no other disk has that.
    pub short: Option<PathBuf>,
    /// Threads that serve the node.
    pub threads: usize,
}

impl Options {
    /// The usual ones: the link is `/dev/ferrite/NAME`, and there are as many threads as cores, from 2 to 4. With one
    /// thread reads would wait behind a flush; on two cores a second one also measured up to half faster at depth 32,
    /// and more than that gained nothing.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        let name = name.into();
        let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
        Self { link: Path::new(LINKS).join(&name), short: None, name, directory: directory.into(), threads }
    }

    /// Those of a disk in the pool called `pool`, its UUID: the link is `/dev/ferrite/by-pool/UUID/NAME`, which no other disk
    /// has, and the short one `/dev/ferrite/NAME`.
    pub fn in_pool(pool: &str, name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        let usual = Self::new(name, directory);
        let link = Path::new(LINKS).join("by-pool").join(pool).join(&usual.name);
        Self { short: Some(usual.link), link, ..usual }
    }
}

/// Whether this process can attach anything.
///
/// # Errors
/// [`Error::Missing`] says what it lacks.
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

/// What lies between a node and its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel's own NBD driver: the shorter way, taken where the kernel has it (Linux 5.14 on).
    Nbd,
    /// A loop device over the one file of a FUSE file system: any kernel has both.
    Loop,
}

impl Way {
    /// In a line for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nbd => "by the kernel's NBD driver",
            Self::Loop => "by FUSE and a loop device",
        }
    }

    /// Whether this kernel has it.
    pub(super) fn is_there(self) -> bool {
        match self {
            Self::Nbd => nbd_node::find_driver().is_ok(),
            Self::Loop => LOOP_WAY.iter().all(|device| device.missing().is_none()),
        }
    }
}
