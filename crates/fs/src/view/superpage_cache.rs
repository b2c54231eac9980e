//! A thread's cache of files that it reads directly: superpages, and how to check that they still belong to the file.
//!
//! A copy out of uncached memory takes the time of hundreds of instructions, and the next copy overlaps with it if few
//! instructions lie between the two. So the results of a lookup are kept with the place, in one line of the cache. A
//! read copies, and checks afterwards that the copy counts (FG1, FG4): by the version and by the directly stored size,
//! like all hints (FH1).
//!
//! A signal handler may interrupt any of this, as with other hints (`hints`).

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use ferrite_pool::layout::CHUNK;

use crate::view::hints;
use crate::view::version::LockVersion;

/// Superpages of a thread: for 512 MiB of one file.
const CACHED_SUPERPAGES: usize = 256;

/// 2 MiB of the file of a lease; no other lease of this process has the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBlock {
    /// The number of the lease.
    pub lease: u64,
    /// The number of the block in the file.
    pub block: u64,
}

/// A superpage, as far as the file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperpagePlace {
    /// The version at the lookup.
    pub version: LockVersion,
    /// The offset in the pool.
    pub place: u64,
    /// How many of its bytes belong to the file.
    pub bytes: u64,
    /// The offset of the directly stored size.
    pub size_at: u64,
    /// What stood there.
    pub direct_size: u64,
}

/// A block of a lease and its superpage, as words.
#[repr(align(64))]
struct CachedSuperpage([AtomicU64; 7]);

thread_local! {
    static KEPT: [CachedSuperpage; CACHED_SUPERPAGES] = const { [const { CachedSuperpage([const { AtomicU64::new(0) }; 7]) }; CACHED_SUPERPAGES] };
}

impl LeaseBlock {
    /// Returns the block around byte `at`.
    #[inline(always)]
    pub fn of(lease: u64, at: u64) -> Self {
        Self { lease, block: at / CHUNK }
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.block + self.lease.wrapping_mul(37)) as usize % CACHED_SUPERPAGES
    }
}

/// A cached superpage, valid or not: all words read from it belong to one entry if [`CachedPlace::is_one`] returns
/// true afterwards.
pub struct CachedPlace {
    slot: usize,
    changes: u64,
}

impl CachedPlace {
    /// Reads one word, by a small closure as for other hints.
    #[inline(always)]
    fn word(&self, word: usize) -> u64 {
        KEPT.try_with(|kept| kept[self.slot].0[word].load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the place of the `len` bytes from byte `at` of the file on.
    #[inline(always)]
    pub fn place_of(&self, at: u64, len: usize) -> Option<u64> {
        let within = at % CHUNK;
        if within + len as u64 <= self.word(4) { Some(self.word(3).wrapping_add(within)) } else { None }
    }

    /// The version that it was found after.
    #[inline(always)]
    pub fn version(&self) -> LockVersion {
        LockVersion(self.word(2))
    }

    /// Returns the offset of the directly stored size, and its word at the lookup.
    #[inline(always)]
    pub fn size(&self) -> (u64, u64) {
        (self.word(5), self.word(6))
    }

    /// Returns true if all words read belong to one entry: nothing was kept in between, for example by a signal
    /// handler.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        hints::changes() == self.changes
    }
}

/// Returns the cached superpage of `piece`.
#[inline(always)]
pub fn find(piece: LeaseBlock) -> Option<CachedPlace> {
    let seen = CachedPlace { slot: piece.slot(), changes: hints::changes() };
    compiler_fence(Ordering::SeqCst);
    let is_there = seen.changes.is_multiple_of(2) && seen.word(0) == piece.lease && seen.word(1) == piece.block;
    if is_there { Some(seen) } else { None }
}

/// Keeps what is found of `piece`.
pub fn keep(piece: LeaseBlock, superpage: &SuperpagePlace) {
    let SuperpagePlace { version, place, bytes, size_at, direct_size } = *superpage;
    let words = [piece.lease, piece.block, version.0, place, bytes, size_at, direct_size];
    let set = |kept: &[CachedSuperpage; CACHED_SUPERPAGES]| {
        kept[piece.slot()].0.iter().zip(words).for_each(|(kept, word)| kept.store(word, Ordering::Relaxed));
    };
    hints::change(|| KEPT.with(set));
}
