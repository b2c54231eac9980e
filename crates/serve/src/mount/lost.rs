//! Content that the kernel wrote back in vain.
//!
//! - ML1. If content that the kernel kept does not fit when it comes, the kernel forgets its copy of the file, so all readers
//!   see the same: what the file system has, zeros where it has nothing. Besides what the kernel tells the program, the next
//!   fsync of the file fails, unless the kernel has forgotten the file meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_fs::Ino;
use fuser::Errno;

use super::front::Front;

/// Files of which content was lost, and why, until an fsync told it.
#[derive(Default)]
pub(super) struct Lost(Mutex<BTreeMap<u64, Errno>>);

impl Lost {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Errno>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why content of `ino` was lost, if some was and no fsync has told it.
    pub fn take(&self, ino: Ino) -> Option<Errno> {
        self.lock().remove(&ino.0)
    }
}

impl Front {
    /// Notes that content of `ino` could not be written back because of `why`.
    pub(super) fn lose(&self, ino: Ino, why: Errno) {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::LossForgotten) {
            return self.fs.forget_copies(ino);
        }
        self.lost.lock().insert(ino.0, why);
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::LostShown) {
            return;
        }
        // In a thread of its own: the kernel waits with it for the answer to this very write.
        self.fs.forget_copies(ino);
    }
}
