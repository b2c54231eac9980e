//! The end of a file, as the client knows it that appended to it last.
//!
//! A client's appends store sizes past the processor's caches, which is sooner done than a line's way through them; to load
//! one again would wait for memory. It counts for who has the end (FG7) and finds the version of that append: whoever else
//! stores a size has the file's lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::board::Version;

/// See the module.
#[derive(Debug)]
pub(crate) struct KnownEnd {
    version: AtomicU64,
    size: AtomicU64,
}

impl KnownEnd {
    /// None is known.
    pub const fn new() -> Self {
        Self { version: AtomicU64::new(Version::NONE.0), size: AtomicU64::new(u64::MAX) }
    }

    /// Whether it may be at byte `at`.
    #[inline(always)]
    pub fn may_be_at(&self, at: u64) -> bool {
        self.size.load(Ordering::Relaxed) == at
    }

    /// Where it is for who has it, and found `version` since.
    #[inline(always)]
    pub fn after(&self, version: Version) -> Option<u64> {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::StaleEnd) {
            return Some(self.size.load(Ordering::Relaxed));
        }
        if self.version.load(Ordering::Relaxed) == version.0 { Some(self.size.load(Ordering::Relaxed)) } else { None }
    }

    /// Who has it since before `version` stored `size`.
    #[inline(always)]
    pub fn note(&self, version: Version, size: u64) {
        self.version.store(version.0, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }
}
