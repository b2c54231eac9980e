//! The end of a file, as the client knows it that appended to it last.
//!
//! A client's appends store sizes past the processor's caches, which is faster than a line's way through them; loading
//! one again would wait for memory. The known size counts for the holder of the end (FG7) if the version is still the
//! version of the last append, because every other writer of a size holds the file's lock.

use ferrite_memory::planted;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_fs::format::append_checksum::AppendChecksums;
use ferrite_fs::format::inode::KnownSize;
use ferrite_fs::view::version::LockVersion;

/// The size of a file after this client's last append. It has lines of its own, because one thread stores to it with
/// each append while another thread appends to another file.
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

    /// Returns true if it may be at byte `at`.
    #[inline(always)]
    pub fn may_be_at(&self, at: u64) -> bool {
        self.size.load(Ordering::Relaxed) == at
    }

    /// Returns the stored size if the holder of the end found the same `version` as the last append.
    #[inline(always)]
    pub fn after(&self, version: LockVersion) -> Option<KnownSize> {
        let known = || {
            let checksums = self.checksums.each_ref().map(|word| word.load(Ordering::Relaxed));
            KnownSize { size: self.size.load(Ordering::Relaxed), checksums: AppendChecksums::of_words(checksums) }
        };
        planted!("fs: stale end" => return Some(known()));
        if self.version.load(Ordering::Relaxed) == version.0 { Some(known()) } else { None }
    }

    /// Notes what the holder of the end stored. It has held the end since before it found `version`.
    #[inline(always)]
    pub fn note(&self, version: LockVersion, known: KnownSize) {
        self.version.store(version.0, Ordering::Relaxed);
        self.size.store(known.size, Ordering::Relaxed);
        self.checksums.iter().zip(known.checksums.words()).for_each(|(word, now)| word.store(now, Ordering::Relaxed));
    }
}
