//! Words that an owner shares with the processes to which it lends tags: whether it lives, and which grants it has
//! revoked. A lease loads both before each change, and counts the change.
//!
//! ```text
//! word 0              the owner's liveness word
//! word 1 + n          of the grant in slot n: 0, or 1 when the grant is revoked
//! word 512 + 1152 n   of the grant in slot n: counters of four operations, then figures: see `lease_counters`
//! behind them, word n of the grant in slot n: what the owner wishes of its holder, 0: nothing
//! ```

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ferrite_memory::{LivenessWord, RequestWords, SharedWords};
use parking_lot::Mutex;

use crate::superblock::Superblock;
use crate::{Error, Result};

use super::lease_counters::{self, LEASE_FIGURES, TagCounters, counters_of};

/// The owner's side. The liveness word is set with the first lent tag, and cleared when the pool is closed or its
/// process ends.
#[derive(Debug)]
pub(crate) struct LeaseWords {
    words: Arc<SharedWords>,
    _liveness: LivenessWord,
}

impl LeaseWords {
    fn light() -> Result<Self> {
        let words = Arc::new(SharedWords::new(lease_counters::SHARED)?);
        let liveness = LivenessWord::set(&words, 0)?;
        Ok(Self { words, _liveness: liveness })
    }

    pub fn share(&self) -> Result<OwnedFd> {
        Ok(self.words.share()?)
    }

    /// Returns the signal of the grant in slot `slot`, not yet raised.
    pub fn bell(&self, slot: usize) -> RevokeSignal {
        let bell = RevokeSignal { words: Arc::clone(&self.words), word: 1 + slot };
        bell.words.word(bell.word).store(0, Ordering::Release);
        bell
    }
}

/// The leases of an open pool.
#[derive(Debug, Default)]
pub(crate) struct LeaseList {
    /// Generations of the tags that this process leases, or is about to lend.
    pub tags: Mutex<BTreeSet<u64>>,
    pub counters: Mutex<TagCounters>,
    board: OnceLock<LeaseWords>,
    /// The number of leases so far.
    count: AtomicU64,
}

impl LeaseList {
    /// Returns a session for a new lease, greater than all earlier ones: superblock generations are below 2^32, and
    /// each opening has a greater one.
    pub fn next_session(&self, superblock: &Superblock) -> u64 {
        (superblock.generation << 32) + self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the shared words, if they exist.
    pub fn known_words(&self) -> Option<&SharedWords> {
        self.board.get().map(|board| &*board.words)
    }

    /// Returns the shared words, which exist from the first call on.
    pub fn board(&self) -> Result<&LeaseWords> {
        if let Some(board) = self.board.get() {
            return Ok(board);
        }
        let board = LeaseWords::light()?;
        Ok(self.board.get_or_init(|| board))
    }
}

/// The signal that revokes a lent tag.
#[derive(Debug)]
pub(crate) struct RevokeSignal {
    words: Arc<SharedWords>,
    word: usize,
}

impl RevokeSignal {
    /// Returns the index of the word.
    pub fn word(&self) -> usize {
        self.word
    }

    pub fn ring(&self) {
        self.words.word(self.word).store(1, Ordering::Release);
    }
}

/// The client's side of the words, for one grant.
#[derive(Debug)]
pub struct LeaseWatch {
    words: Arc<SharedWords>,
    word: AtomicUsize,
}

impl LeaseWatch {
    /// Returns the client's side of the grant with this word, or `None` if the index is out of range.
    pub fn new(words: Arc<SharedWords>, word: usize) -> Option<Self> {
        (word > 0 && word < words.count()).then(|| Self { words, word: AtomicUsize::new(word) })
    }

    /// Switches to the word of `other`, because the grant was replaced.
    pub(super) fn turn_to(&self, other: &Self) {
        self.word.store(other.word.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the slot of the grant.
    #[inline]
    fn slot(&self) -> usize {
        self.word.load(Ordering::Relaxed) - 1
    }

    /// Returns the counters of operation `op`; `None` if the owner is of a version that shares none.
    #[inline]
    pub(super) fn counters(&self, op: usize) -> Option<&RequestWords> {
        counters_of(&self.words, self.slot(), op)
    }

    /// Publishes `figures` for the owner.
    pub(super) fn publish(&self, figures: [u64; LEASE_FIGURES]) {
        lease_counters::publish(&self.words, self.slot(), figures);
    }

    /// Returns the wish of a living owner.
    pub(super) fn wish(&self) -> Option<u64> {
        LivenessWord::is_alive(self.words.word(0)).then(|| lease_counters::wish(&self.words, self.slot())).flatten()
    }

    /// Refuses if the grant is no longer valid (HO4), except that it may outlive the owner (HO7).
    #[inline]
    pub(super) fn check(&self, outlives_owner: bool) -> Result<()> {
        if !outlives_owner && !LivenessWord::is_alive(self.words.word(0)) {
            return Err(revoked("the process that owned the pool has ended"));
        }
        if self.words.word(self.word.load(Ordering::Relaxed)).load(Ordering::Acquire) != 0 {
            return Err(revoked("the process that owns the pool has asked for it back"));
        }
        Ok(())
    }
}

#[cold]
fn revoked(why: &str) -> Error {
    Error::Revoked(why.into())
}
