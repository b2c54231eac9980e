//! The end of a file, as the client knows it that appended to it last.
//!
//! A client's appends store sizes past the processor's caches, which is sooner done than a line's way through them; to load
//! one again would wait for memory. It counts for who has the end (FG7) and finds the version of that append: whoever else
//! stores a size has the file's lock.

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_fs::format::append_checksum::AppendChecksums;
use ferrite_fs::format::inode::KnownSize;
use ferrite_fs::view::version::LockVersion;

/// See the module. On lines of its own: each append stores to it, by one thread beside another one's of another file.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct KnownEnd {
    version: AtomicU64,
    size: AtomicU64,
    checksums: [AtomicU64; 4],
}

impl KnownEnd {
    /// None is known.
    pub const fn new() -> Self {
        let (version, size) = (AtomicU64::new(LockVersion::NONE.0), AtomicU64::new(u64::MAX));
        Self { version, size, checksums: [const { AtomicU64::new(0) }; 4] }
    }

    /// Whether it may be at byte `at`.
    #[inline(always)]
    pub fn may_be_at(&self, at: u64) -> bool {
        self.size.load(Ordering::Relaxed) == at
    }

    /// What stands there for who has it, and found `version` since.
    #[inline(always)]
    pub fn after(&self, version: LockVersion) -> Option<KnownSize> {
        let known = || {
            let checksums = self.checksums.each_ref().map(|word| word.load(Ordering::Relaxed));
            KnownSize { size: self.size.load(Ordering::Relaxed), checksums: AppendChecksums::of_words(checksums) }
        };
        ferrite_fs::planted!(StaleEnd => return Some(known()));
        if self.version.load(Ordering::Relaxed) == version.0 { Some(known()) } else { None }
    }

    /// Who has it since before `version` stored that.
    #[inline(always)]
    pub fn note(&self, version: LockVersion, known: KnownSize) {
        self.version.store(version.0, Ordering::Relaxed);
        self.size.store(known.size, Ordering::Relaxed);
        self.checksums.iter().zip(known.checksums.words()).for_each(|(word, now)| word.store(now, Ordering::Relaxed));
    }
}
