//! Content that the kernel wrote back late and the server could not store.
//!
//! - ML1. If the server cannot store content that the kernel writes back late, it makes the kernel drop its copy of the
//!   file. So all readers see the same: the content in the file system, and zeros in its holes. The next fsync of the
//!   file fails too, unless the kernel has forgotten the inode by then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_fs::Ino;
use ferrite_memory::planted;
use fuser::Errno;

use super::server::FuseFs;

/// Files that lost content, each with the error that the next fsync reports.
#[derive(Default)]
pub(super) struct Lost(Mutex<BTreeMap<u64, Errno>>);

impl Lost {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Errno>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the error of content that `ino` lost, if no fsync has reported it.
    pub fn take(&self, ino: Ino) -> Option<Errno> {
        self.lock().remove(&ino.0)
    }
}

impl FuseFs {
    /// Records that content of `ino` could not be written back because of `why`.
    pub(super) fn lose(&self, ino: Ino, why: Errno) {
        if planted!("mount: loss forgotten") {
            return self.fs.forget_copies(ino);
        }
        self.lost.lock().insert(ino.0, why);
        if planted!("mount: lost shown") {
            return;
        }
        // Runs in another thread, because the kernel drops its copy only after the answer to this write.
        self.fs.forget_copies(ino);
    }
}
