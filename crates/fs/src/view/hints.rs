//! A thread's cache of lookups: where 2 MiB of a file lie, and the values of its inode.
//!
//! A copy out of uncached memory takes the time of hundreds of instructions, and the next copy overlaps with it if few
//! instructions lie between the two. So a lookup is a comparison and one load.
//!
//! - FH1. A hint counts while the version of the file's lock and the directly stored size are those that it was found
//!   with: every other change of what it holds takes the lock. So it equals the result of a new lookup. Because each
//!   version occurs once, the hint need not be checked when it is kept.
//!
//! An access is noted under a lock that readers share, so that thread drops its own hint.
//!
//! A signal handler may interrupt its own thread anywhere in here. A lookup stores nothing, so that the next copy does
//! not wait for a store buffer. A store counts before and after, and a lookup around or within it finds nothing.

use ferrite_memory::planted;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use ferrite_pool::layout::CHUNK;

use crate::Ino;
use crate::view::inode_snapshot::{InodeSnapshot, SNAPSHOT_WORDS};
use crate::view::version::{LockVersion, StateId};

/// Hints of a thread: for 512 MiB of one file.
const HINTS: usize = 256;

/// 2 MiB of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBlock {
    /// The shared words that the file is known by.
    pub shared_state: StateId,
    /// The file.
    pub ino: Ino,
    /// The number of the block in the file.
    pub block: u64,
}

/// A cached lookup as words: state, inode and block, the version, and the snapshot. Atomics, because a signal handler
/// may change them.
type Hint = [AtomicU64; HINT_WORDS];

const HINT_WORDS: usize = 4 + SNAPSHOT_WORDS;

thread_local! {
    static HELD: [Hint; HINTS] = const { [const { [const { AtomicU64::new(0) }; HINT_WORDS] }; HINTS] };
    /// Changes of what is held, each counted when it begins and when it is done: odd in the middle of one.
    static CHANGES: AtomicU64 = const { AtomicU64::new(0) };
}

impl FileBlock {
    #[inline(always)]
    fn slot(self) -> usize {
        slot(self.ino, self.block)
    }
}

#[inline(always)]
fn slot(ino: Ino, block: u64) -> usize {
    (block + ino.0.wrapping_mul(37)) as usize % HINTS
}

/// Returns how often hints have changed.
#[inline(always)]
pub(crate) fn changes() -> u64 {
    CHANGES.with(|changes| changes.load(Ordering::Relaxed))
}

fn count(so_many: u64) {
    CHANGES.with(|changes| changes.store(so_many, Ordering::Relaxed));
}

/// Returns the snapshot of `piece` at `version`, if it is cached (FH1). The closures are small and use `try_with`,
/// which is inlined into callers, unlike `with`: a call for each word is a tenth of a 4 KiB read.
#[inline(always)]
pub fn find(piece: FileBlock, version: LockVersion) -> Option<InodeSnapshot> {
    let (slot, before) = (piece.slot(), changes());
    compiler_fence(Ordering::SeqCst);
    let word = |word: usize| HELD.try_with(|held| held[slot][word].load(Ordering::Relaxed)).unwrap_or(0);
    if before % 2 == 1 || word(0) != piece.shared_state.word() || word(1) != piece.ino.0 || word(2) != piece.block {
        return None;
    }
    let (of, snapshot) =
        (LockVersion(word(3)), InodeSnapshot::of([word(4), word(5), word(6), word(7), word(8), word(9)]));
    compiler_fence(Ordering::SeqCst);
    if counts(of, version) && changes() == before { Some(snapshot) } else { None }
}

/// Returns the place of byte `at` of the file, if this thread last saw it in a superpage: as a hint to the processor,
/// because neither the version nor the file is checked.
#[inline(always)]
pub fn guess(ino: Ino, at: u64) -> Option<u64> {
    let slot = slot(ino, at / CHUNK);
    InodeSnapshot::guess(HELD.try_with(|held| held[slot][HINT_WORDS - 1].load(Ordering::Relaxed)).unwrap_or(0), at)
}

/// Returns true if what was found after `of` counts where `now` is found (FH1).
#[inline(always)]
pub fn counts(of: LockVersion, now: LockVersion) -> bool {
    planted!("fs: stale hint" => return true);
    of == now
}

/// Runs `work` alone, which changes the hints; not within another such change that a signal interrupted.
pub(crate) fn change(work: impl FnOnce()) {
    let before = changes();
    if before % 2 == 1 {
        return;
    }
    count(before + 1);
    compiler_fence(Ordering::SeqCst);
    work();
    compiler_fence(Ordering::SeqCst);
    count(before + 2);
}

/// Keeps what is seen of `piece` after `version`.
pub(crate) fn keep(piece: FileBlock, version: LockVersion, snapshot: InodeSnapshot) {
    let of = [piece.shared_state.word(), piece.ino.0, piece.block, version.0];
    let words = of.into_iter().chain(snapshot.words());
    let set = |held: &[Hint; HINTS]| {
        held[piece.slot()].iter().zip(words).for_each(|(kept, word)| kept.store(word, Ordering::Relaxed));
    };
    change(|| HELD.with(set));
}

/// Forgets what was seen of `piece`.
pub(crate) fn forget(piece: FileBlock) {
    keep(piece, LockVersion::NONE, InodeSnapshot::NONE);
}
