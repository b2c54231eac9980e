//! How a disk is attached, and whether it can be.

use std::path::{Path, PathBuf};
use std::thread;

use super::{Error, Result, fuse};

/// How a disk is attached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk's name, unique in `directory`: a file name without control characters or a leading dot.
    pub name: String,
    /// A private directory for the mount, one for each pool, such as `/run/ferrite/POOL-ID`. It is made if need be,
    /// and removed when nothing is attached in it.
    pub directory: PathBuf,
    /// The link that leads to the node.
    pub link: PathBuf,
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
        Self { link: Path::new("/dev/ferrite").join(&name), name, directory: directory.into(), threads }
    }
}

/// Whether this process can attach anything.
///
/// # Errors
/// [`Error::Missing`] says what it lacks.
pub fn check() -> Result<()> {
    if !fuse::is_root() {
        return Err(Error::Missing("only root may".into()));
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            return Err(Error::Missing(format!("this kernel or container has no {device}")));
        }
    }
    Ok(())
}
