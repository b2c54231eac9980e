//! Times that clients note on the board, and how the inode comes to say them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::board::Board;
use crate::fs::FileSystem;
use crate::read::apply_waiting;
use crate::{Ino, Time};

/// Times of a file that clients noted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noted {
    written: u64,
    accessed: u64,
}

/// Takes what clients noted in `slot`.
pub(super) fn noted(board: &Board, slot: usize) -> Noted {
    let take = |word: &AtomicU64| match word.load(Ordering::Acquire) {
        0 => 0,
        _ => word.swap(0, Ordering::AcqRel),
    };
    Noted { written: take(board.written(slot)), accessed: take(board.accessed(slot)) }
}

impl FileSystem {
    /// Lets the inode say when clients wrote to it and read from it.
    pub(crate) fn fold_times(&self, ino: Ino) {
        // While changes wait they stay on the board.
        if !self.desk.is_leased() || !self.gate.is_open() {
            return;
        }
        let found: Vec<Noted> = self.desk.books.lock().of(ino).map(|out| noted(&self.space.board, out.slot)).collect();
        self.take_times(ino, &found);
    }

    /// The same for all files.
    pub(crate) fn fold_all_times(&self) {
        if self.desk.is_leased() {
            let inos: Vec<u64> = self.desk.books.lock().leases.keys().map(|(ino, _)| *ino).collect();
            inos.into_iter().for_each(|ino| self.fold_times(Ino(ino)));
        }
    }

    pub(super) fn take_times(&self, ino: Ino, noted: &[Noted]) {
        let latest = |of: fn(&Noted) -> u64| noted.iter().map(of).max().unwrap_or(0) as i64;
        let (written, accessed) = (latest(|noted| noted.written), latest(|noted| noted.accessed));
        if (written, accessed) == (0, 0) || self.refuse_if_read_only().is_err() {
            return;
        }
        let Some(_pass) = self.gate.try_pass() else { return };
        let stripe = self.locks.write(ino);
        let Ok(mut inode) = self.load_regular(ino) else { return };
        apply_waiting(&stripe, &mut inode);
        if written > inode.head.mtime {
            inode.touch(Time(written).0);
        }
        if accessed > 0 && inode.head.atime <= inode.head.mtime {
            inode.head.atime = accessed.max(inode.head.mtime.saturating_add(1));
        }
        // A time that cannot be kept is no error of anybody's.
        let _ = self.store_end(&stripe, &mut inode);
    }
}
