//! What a thread remembers of files that it looked at: where 2 MiB of one lie, and what its inode said.
//!
//! A copy out of memory that is in no cache takes hundreds of instructions' time, and the next one begins meanwhile if
//! few enough lie between the two. So a lookup is a comparison and one load.
//!
//! - FH1. A hint counts while the version of the file's lock is the one that it was found after, and the size that is
//!   stored directly is the same: whoever changes anything else that it says takes the lock. So it is what a lookup would
//!   find again; and since a version comes once, it need not have been checked when it is kept.
//!
//! That a file was read is noted under a lock that readers share, so who notes it forgets its own hint.
//!
//! A signal handler may interrupt its own thread anywhere in here; it then does without.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::Ino;
use crate::direct::board::Version;
use crate::glance::Sight;

/// Hints of a thread: for 512 MiB of one file.
const HINTS: usize = 256;

/// Bytes of a read that is asked for.
const ASKED_BYTES_MIN: usize = 1024;

/// 2 MiB of a file of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub board: BoardId,
    pub ino: Ino,
    /// Its number in the file.
    pub block: u64,
}

/// A board of this process; no other has ever had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoardId(u64);

impl BoardId {
    pub fn new() -> Self {
        static BOARDS: AtomicU64 = AtomicU64::new(1);
        Self(BOARDS.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Clone, Copy)]
struct Hint {
    piece: Piece,
    version: Version,
    sight: Sight,
}

const NO_PIECE: Piece = Piece { board: BoardId(0), ino: Ino(0), block: 0 };
const NOTHING: Hint = Hint { piece: NO_PIECE, version: Version::NONE, sight: Sight::NONE };

thread_local! {
    static HELD: [Cell<Hint>; HINTS] = const { [const { Cell::new(NOTHING) }; HINTS] };
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    /// Where in a pool this thread's last read ended.
    static ENDED: Cell<u64> = const { Cell::new(0) };
}

/// Alone with the hint for `piece` of this thread; `None` for who interrupted somebody who is.
#[inline(always)]
fn alone<T>(piece: Piece, work: impl FnOnce(&Cell<Hint>) -> T) -> Option<T> {
    if IS_BUSY.replace(true) {
        return None;
    }
    compiler_fence(Ordering::SeqCst);
    let slot = (piece.block + piece.ino.0.wrapping_mul(37)) as usize % HINTS;
    let done = HELD.with(|held| work(&held[slot]));
    compiler_fence(Ordering::SeqCst);
    IS_BUSY.set(false);
    Some(done)
}

/// What was seen of a piece last, whether it still counts or not.
#[derive(Clone, Copy)]
pub(crate) struct Last {
    version: Version,
    sight: Sight,
}

impl Last {
    /// What counts after `version`, which the caller found under its pin (FH1).
    #[inline(always)]
    pub fn after(&self, version: Version) -> Option<Sight> {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::StaleHint) {
            return Some(self.sight);
        }
        (self.version == version).then_some(self.sight)
    }

    /// Where the `len` bytes from byte `at` on were, if that was in a superpage: to be asked for while it is looked whether
    /// they still are. Not where a read goes on from the last one: the processor asks for that by itself, and better.
    #[inline(always)]
    pub fn place_ahead(&self, at: u64, len: usize) -> Option<u64> {
        let place = self.sight.super_place(at)?;
        let goes_on = ENDED.replace(place + len as u64) == place;
        (!goes_on && len >= ASKED_BYTES_MIN).then_some(place)
    }
}

/// What was seen of `piece` last.
#[inline(always)]
pub(crate) fn last(piece: Piece) -> Option<Last> {
    let Hint { piece: of, version, sight } = alone(piece, Cell::get)?;
    (of == piece).then_some(Last { version, sight })
}

/// What was seen of `piece` after `version` (FH1).
#[inline(always)]
pub(crate) fn find(piece: Piece, version: Version) -> Option<Sight> {
    last(piece)?.after(version)
}

/// Keeps what is seen of `piece` after `version`.
pub(crate) fn keep(piece: Piece, version: Version, sight: Sight) {
    alone(piece, |slot| slot.set(Hint { piece, version, sight }));
}

/// Forgets what was seen of `piece`.
pub(crate) fn forget(piece: Piece) {
    alone(piece, |slot| slot.set(NOTHING));
}
