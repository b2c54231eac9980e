//! What a thread remembers of files that it reads directly: superpages, and what tells whether they still are the file's.
//!
//! A copy out of memory that is in no cache takes hundreds of instructions' time, and the next one begins meanwhile if few
//! enough lie between the two. So what can be found out once is kept with the place, in one line of the cache. A read
//! copies, and looks behind the copy whether that counts (FG1, FG4): by the version and by the size that is stored
//! directly, as with all hints (FH1).
//!
//! A signal handler may come amid all of this, as with other hints (`hints`).

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use ferrite_pool::layout::CHUNK;

use crate::view::hints;
use crate::view::version::LockVersion;

/// Stretches of a thread: for 512 MiB of one file.
const STRETCHES: usize = 256;

/// 2 MiB of the file of a lease; no other lease of this process has the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBlock {
    /// The number of the lease.
    pub lease: u64,
    /// Its number in the file.
    pub block: u64,
}

/// A superpage, as far as the file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperpagePlace {
    /// What it was found after.
    pub version: LockVersion,
    /// Where it lies in the pool.
    pub place: u64,
    /// How many of its bytes are the file's.
    pub bytes: u64,
    /// Where the file's size is stored directly, and what stood there.
    pub size_at: u64,
    /// What stood there.
    pub direct_size: u64,
}

/// Piece and stretch, as words.
#[repr(align(64))]
struct CachedSuperpage([AtomicU64; 7]);

thread_local! {
    static KEPT: [CachedSuperpage; STRETCHES] = const { [const { CachedSuperpage([const { AtomicU64::new(0) }; 7]) }; STRETCHES] };
}

impl LeaseBlock {
    /// That with byte `at`.
    #[inline(always)]
    pub fn of(lease: u64, at: u64) -> Self {
        Self { lease, block: at / CHUNK }
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.block + self.lease.wrapping_mul(37)) as usize % STRETCHES
    }
}

/// What is kept of a piece, whether it still counts or not: what is looked at is of one stretch if [`CachedPlace::is_one`] says so
/// afterwards.
pub struct CachedPlace {
    slot: usize,
    changes: u64,
}

impl CachedPlace {
    /// By the smallest closures, as with other hints.
    #[inline(always)]
    fn word(&self, word: usize) -> u64 {
        KEPT.try_with(|kept| kept[self.slot].0[word].load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Where the `len` bytes from byte `at` of the file on lie.
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

    /// Where the file's size is stored directly, and what stood there.
    #[inline(always)]
    pub fn size(&self) -> (u64, u64) {
        (self.word(5), self.word(6))
    }

    /// Whether all that was looked at is of one stretch: nothing was kept meanwhile, as by a handler of a signal.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        hints::changes() == self.changes
    }
}

/// What is kept of `piece`.
#[inline(always)]
pub fn find(piece: LeaseBlock) -> Option<CachedPlace> {
    let seen = CachedPlace { slot: piece.slot(), changes: hints::changes() };
    compiler_fence(Ordering::SeqCst);
    let is_there = seen.changes.is_multiple_of(2) && seen.word(0) == piece.lease && seen.word(1) == piece.block;
    if is_there { Some(seen) } else { None }
}

/// Keeps what is found of `piece`.
pub fn keep(piece: LeaseBlock, stretch: &SuperpagePlace) {
    let SuperpagePlace { version, place, bytes, size_at, direct_size } = *stretch;
    let words = [piece.lease, piece.block, version.0, place, bytes, size_at, direct_size];
    let set = |kept: &[CachedSuperpage; STRETCHES]| {
        kept[piece.slot()].0.iter().zip(words).for_each(|(kept, word)| kept.store(word, Ordering::Relaxed));
    };
    hints::change(|| KEPT.with(set));
}
