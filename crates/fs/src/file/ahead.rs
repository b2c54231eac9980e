//! Pages that were taken ahead of appends, and how those that no append needs go back.
//!
//! - FX1. What lies behind the end of a file is its own while a client appends to it by itself, or where it was asked for
//!   (`KEEPS_PAGES`), until the file is cut, be it to the size that it has. All else goes back: a second after the file was
//!   last written, when nobody holds it any more, when somebody has no space, and when the file system is left.
//! - FX2. What a crash left there goes back when somebody holds the file, or the first time that somebody has no space.
//! - FX3. Who keeps copies of a file's attributes is told, behind that and by the next step, to let go of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::file::read::apply_waiting;
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::fs::FileSystem;
use crate::store::gate::Pass;
use crate::store::locks::Stripe;
use crate::{Ino, Kind, Result};

/// How long nobody has written to a file whose pages go back.
const REST_NS: u64 = 1_000_000_000;

/// Files that pages were taken ahead for, and when that was.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    files: Mutex<BTreeMap<Ino, i64>>,
    /// What a crash left was looked for.
    is_searched: AtomicBool,
}

impl Ahead {
    /// Pages were taken ahead for `ino`, or are still to go back, at `now`.
    pub fn note(&self, ino: Ino, now: i64) {
        self.files.lock().insert(ino, now);
    }

    /// Whether pages were taken ahead for `ino` since the file system was opened.
    pub fn has(&self, ino: Ino) -> bool {
        self.files.lock().contains_key(&ino)
    }

    /// One that has rested at `now`.
    fn take_rested(&self, now: i64) -> Option<Ino> {
        let mut files = self.files.lock();
        let rested = files.iter().find(|(_, since)| now.abs_diff(**since) >= REST_NS).map(|(ino, _)| *ino)?;
        files.remove(&rested);
        Some(rested)
    }

    fn take(&self) -> Option<Ino> {
        self.files.lock().pop_first().map(|(ino, _)| ino)
    }
}

impl FileSystem {
    /// Frees what `inode` has behind its end, where that is not to stay (FX1) and nobody may still store there.
    pub(crate) fn free_ahead(&self, stripe: &Stripe, inode: &mut Inode) -> Result<()> {
        let is_named_file = inode.kind() == Some(Kind::File) && inode.head.links > 0 && !inode.is_cut();
        let is_kept = inode.head.flags & KEEPS_PAGES != 0 || stripe.has_appender(inode.ino);
        if !is_named_file || is_kept || self.is_busy(stripe, inode.ino) {
            return Ok(());
        }
        let end = inode.size();
        self.free_behind(inode, end)?;
        self.shrink_super(inode)
    }

    fn is_busy(&self, stripe: &Stripe, ino: Ino) -> bool {
        stripe.waiting.contains_key(&ino.0) || self.is_haunted(stripe, ino)
    }

    /// The same for one that was not written to since it was noted.
    pub(crate) fn step_ahead(&self) -> Result<bool> {
        let now = self.now();
        let Some(ino) = self.ahead.take_rested(now) else { return Ok(false) };
        if self.waits() && self.locks.read(ino).waiting.contains_key(&ino.0) {
            // With all that waits: for each by itself the disk would be waited for (FW4).
            self.flush()?;
        }
        let is_written = |inode: &Inode| now.abs_diff(inode.head.mtime) < REST_NS;
        self.give_back_ahead(ino, is_written, &self.gate.pass())?;
        Ok(true)
    }

    /// Frees what was taken ahead for any file. The caller has no lock.
    pub(crate) fn free_all_ahead<'a>(&'a self, pass: impl Fn() -> Option<Pass<'a>>) {
        let mut left = self.ahead.files.lock().len();
        while left > 0
            && let Some(pass) = pass()
            && let Some(ino) = self.ahead.take()
        {
            // What fails is met again by who holds it next.
            let _ = self.give_back_ahead(ino, |_| false, &pass);
            left -= 1;
        }
    }

    /// Frees what a crash left (FX2), the first time. The caller has no lock, and has not passed the gate.
    pub(crate) fn free_left_ahead(&self) {
        if self.space.abroad.has_forerunners() || self.ahead.is_searched.swap(true, Ordering::Relaxed) {
            return;
        }
        for number in self.space.inodes_in_use(self.memory()) {
            let _ = self.give_back_ahead(Ino(number), |_| false, &self.gate.pass());
        }
    }

    /// Frees what `ino` has ahead, or lets that wait where the file `is_wanted`.
    fn give_back_ahead(&self, ino: Ino, is_wanted: impl Fn(&Inode) -> bool, _: &Pass<'_>) -> Result<()> {
        let mut stripe = self.locks.write(ino);
        let Ok(mut inode) = self.load(ino) else { return Ok(()) };
        apply_waiting(&stripe, &mut inode);
        if is_wanted(&inode) || self.is_haunted(&stripe, ino) {
            self.ahead.note(ino, self.now());
            return Ok(());
        }
        if stripe.waiting.contains_key(&ino.0) {
            self.publish_size(&mut stripe, &mut inode)?;
        }
        let before = inode.head.pages;
        let freed = self.free_ahead(&stripe, &mut inode);
        if inode.head.pages != before {
            self.note_stale(ino);
        }
        freed
    }
}
