//! Files that background steps look at later: those with pages ahead, and those that may move to superpages.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::Ino;

/// Nanoseconds without a write after which pages behind the end are freed.
pub(crate) const REST_NS: u64 = 1_000_000_000;

/// Files that pages were taken ahead for, and when that was.
#[derive(Debug, Default)]
pub(crate) struct PagesAhead {
    pub files: Mutex<BTreeMap<Ino, i64>>,
    /// Pages that a crash left were searched.
    pub is_searched: AtomicBool,
}

impl PagesAhead {
    /// Pages were taken ahead for `ino`, or are still to go back, at `now`.
    pub fn note(&self, ino: Ino, now: i64) {
        self.files.lock().insert(ino, now);
    }

    /// Returns true if pages were taken ahead for `ino` since the file system was opened.
    pub fn has(&self, ino: Ino) -> bool {
        self.files.lock().contains_key(&ino)
    }

    /// One that has rested at `now`.
    pub fn pop_rested(&self, now: i64) -> Option<Ino> {
        let mut files = self.files.lock();
        let rested = files.iter().find(|(_, since)| now.abs_diff(**since) >= REST_NS).map(|(ino, _)| *ino)?;
        files.remove(&rested);
        Some(rested)
    }

    pub fn take(&self) -> Option<Ino> {
        self.files.lock().pop_first().map(|(ino, _)| ino)
    }
}

/// Files to look at, and the block of each where that goes on.
#[derive(Debug, Default)]
pub(crate) struct SuperpageCandidates(Mutex<BTreeMap<Ino, u64>>);

impl SuperpageCandidates {
    /// Block `block` of `ino` may be ready to move.
    pub fn add(&self, ino: Ino, block: u64) {
        let mut all = self.0.lock();
        let from = all.entry(ino).or_insert(block);
        *from = block.min(*from);
    }

    /// Removes a file from those to look at, with its block.
    pub fn take(&self) -> Option<(Ino, u64)> {
        self.0.lock().pop_first()
    }
}
