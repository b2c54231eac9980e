//! Times that clients note on the board, and how the inode comes to say them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Ino;
use crate::file::size;
use crate::format::inode::Inode;
use crate::share::layout::shared_state::Board;
use crate::share::shared_files::SharedFiles;
use crate::store::locks::Stripe;

/// Times of a file that clients noted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    written: u64,
    accessed: u64,
}

/// Takes what clients noted in `slot`.
pub(crate) fn noted(board: &Board, slot: usize) -> Noted {
    let take = |word: &AtomicU64| match word.load(Ordering::Acquire) {
        0 => 0,
        _ => word.swap(0, Ordering::AcqRel),
    };
    Noted { written: take(board.written(slot)), accessed: take(board.accessed(slot)) }
}

/// What is noted in `slot`.
pub(crate) fn seen(board: &Board, slot: usize) -> Noted {
    let load = |word: &AtomicU64| word.load(Ordering::Acquire);
    Noted { written: load(board.written(slot)), accessed: load(board.accessed(slot)) }
}

impl Noted {
    pub fn is_nothing(self) -> bool {
        (self.written, self.accessed) == (0, 0)
    }

    /// Lets `inode` say it, at `now`. A time that somebody set to one that is still to come is older all the same.
    pub fn tell(self, inode: &mut Inode, now: i64) {
        let (written, accessed) = (self.written as i64, self.accessed as i64);
        let was_set = written > 0 && inode.head.mtime > now;
        if written > inode.head.mtime || was_set {
            inode.touch(written);
        }
        if accessed > 0 && inode.head.atime <= inode.head.mtime {
            inode.head.atime = accessed.max(inode.head.mtime.saturating_add(1));
        }
    }
}

impl SharedFiles {
    /// Lets the inode say when clients wrote to it and read from it.
    pub(crate) fn fold_times(&self, ino: Ino) {
        if !self.link.is_leased() {
            return;
        }
        let board = &self.space.board;
        // While changes wait they stay on the board.
        let is_noted = self.sessions.books.lock().of(ino).any(|out| !seen(board, out.slot).is_nothing());
        if is_noted
            && self.refuse_if_read_only().is_ok()
            && let Some(_pass) = self.gate.try_pass()
        {
            let stripe = self.locks.write(ino);
            let found: Vec<Noted> = self.sessions.books.lock().of(ino).map(|out| noted(board, out.slot)).collect();
            self.keep_times(&stripe, ino, &found);
        }
    }

    /// The same for all files.
    pub(crate) fn fold_all_times(&self) {
        if self.link.is_leased() {
            let inos: Vec<u64> = self.sessions.books.lock().leases.keys().map(|(ino, _)| *ino).collect();
            inos.into_iter().for_each(|ino| self.fold_times(Ino(ino)));
        }
    }

    /// Lets the inode say what is `noted`, under its lock; the caller has passed the gate.
    pub(crate) fn keep_times(&self, stripe: &Stripe, ino: Ino, noted: &[Noted]) {
        let latest = |of: fn(&Noted) -> u64| noted.iter().map(of).max().unwrap_or(0);
        let latest = Noted { written: latest(|noted| noted.written), accessed: latest(|noted| noted.accessed) };
        if let Ok(mut inode) = self.load_regular(ino) {
            stripe.apply_waiting(&mut inode);
            latest.tell(&mut inode, self.now());
            // A time that cannot be kept is no error of anybody's.
            let _ = size::store_end(self, stripe, &mut inode);
        }
    }
}
