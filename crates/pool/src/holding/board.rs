//! Words that an owner shares with its tenants: whether it lives, and which grants it has asked back. A tenant looks at
//! both before each change, which is two loads.
//!
//! ```text
//! word 0       the owner's beacon
//! word 1 + n   of the grant in slot n: 0, or 1 when it has been asked back
//! ```

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ferrite_memory::{Beacon, SharedWords};
use parking_lot::Mutex;

use crate::layout::GRANT_SLOTS;
use crate::superblock::Superblock;
use crate::{Error, Result};

/// The owner's side: lit with the first holding that is lent, out when the pool is closed or its process ends.
#[derive(Debug)]
pub(crate) struct Board {
    words: Arc<SharedWords>,
    _beacon: Beacon,
}

impl Board {
    fn light() -> Result<Self> {
        let words = Arc::new(SharedWords::new(1 + GRANT_SLOTS as usize)?);
        let beacon = Beacon::light(&words, 0)?;
        Ok(Self { words, _beacon: beacon })
    }

    pub fn share(&self) -> Result<OwnedFd> {
        Ok(self.words.share()?)
    }

    /// The bell of the grant in slot `slot`, not rung.
    pub fn bell(&self, slot: usize) -> Bell {
        let bell = Bell { words: Arc::clone(&self.words), word: 1 + slot };
        bell.words.word(bell.word).store(0, Ordering::Release);
        bell
    }
}

/// What an open pool knows of holdings.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// Generations of the tags that this process holds, or is about to lend.
    pub tags: Mutex<BTreeSet<u64>>,
    board: OnceLock<Board>,
    /// Holdings there have been.
    count: AtomicU64,
}

impl Holdings {
    /// A number for a new holding, greater than that of every one before: generations are below 2^32, and what a pool was
    /// opened with is greater each time.
    pub fn next_session(&self, superblock: &Superblock) -> u64 {
        (superblock.generation << 32) + self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// The board, lit from now on.
    pub fn board(&self) -> Result<&Board> {
        if let Some(board) = self.board.get() {
            return Ok(board);
        }
        let board = Board::light()?;
        Ok(self.board.get_or_init(|| board))
    }
}

/// Tells a tenant that its grant is asked back.
#[derive(Debug)]
pub(crate) struct Bell {
    words: Arc<SharedWords>,
    word: usize,
}

impl Bell {
    /// The word of the board.
    pub fn word(&self) -> usize {
        self.word
    }

    pub fn ring(&self) {
        self.words.word(self.word).store(1, Ordering::Release);
    }
}

/// The tenant's side, of one grant.
#[derive(Debug)]
pub struct Watch {
    words: Arc<SharedWords>,
    word: AtomicUsize,
}

impl Watch {
    /// Of the grant with this word; `None` where the board has none such.
    pub fn new(words: Arc<SharedWords>, word: usize) -> Option<Self> {
        (word > 0 && word < words.count()).then(|| Self { words, word: AtomicUsize::new(word) })
    }

    /// The grant is another one now.
    pub(super) fn turn_to(&self, other: &Self) {
        self.word.store(other.word.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Refuses when the grant is not good any more (HO4).
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if !Beacon::is_lit(self.words.word(0)) {
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
