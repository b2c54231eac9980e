//! Work that waits: done in bounded steps, by whoever has time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fs::FileSystem;
use crate::{Error, Result};

/// How often what meets no space is tried again, while others free some and others take it.
const SPACE_TRIES: u32 = 100;
/// Sleeps until a client that was in the middle of something has gone on, and how many: a second. One that is stopped
/// keeps what it had.
const PIN_NAP: Duration = Duration::from_millis(5);
const PIN_NAPS: u32 = 200;

impl FileSystem {
    /// Does one bounded step of what waits: freeing what large removed files held and what was taken ahead of appends that
    /// do not come, moving files to superpages, giving chunks back to the pool; and keeps the books of clients, and of copies of attributes. `false` when nothing waits.
    ///
    /// # Errors
    /// As [`FileSystem`] says; the books are kept all the same where it is open to be read only.
    pub fn step(&self) -> Result<bool> {
        self.end_sessions();
        self.forget_stale();
        self.refuse_if_read_only()?;
        self.end_forerunners()?;
        self.fold_all_times();
        Ok(self.step_orphans()? || self.step_ahead()? || self.step_superpages()? || self.step_space()?)
    }

    /// What `work` comes to, tried again where it met no space while removed files still had some, which their users see free
    /// already, or clients had some for later. The caller has no lock, and has not passed the gate.
    pub(crate) fn with_space<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..SPACE_TRIES {
            let made = self.space.made.load(Ordering::Acquire);
            let done = work();
            if !done.as_ref().is_err_and(Error::is_no_space) {
                return done;
            }
            if !self.make_space(made) {
                break;
            }
        }
        // Also where there was nothing to give: somebody else may have come to the end of giving it just before.
        work()
    }

    /// Gets back what removed files have, and what was taken ahead of appends, or else chunks that have little in them; whether that was something.
    /// One does it at a time: whoever waited for
    /// another, as `made` tells, finds what that one got.
    fn make_space(&self, made: u64) -> bool {
        let one = self.space.making.lock();
        if self.space.made.load(Ordering::Acquire) != made {
            return true;
        }
        // What whoever met no space gave back itself is nothing new.
        self.space.drain_limbo();
        let turn = self.space.limbo.turn();
        let is_made = || {
            self.space.drain_limbo();
            self.space.limbo.turn() != turn
        };
        // What fails is met again by a step.
        while matches!(self.step_orphans(), Ok(true)) {}
        let is_made_by = |work: &dyn Fn()| {
            work();
            is_made()
        };
        let is_done = is_made()
            || self.end_forerunners().unwrap_or(false)
            || is_made_by(&|| self.free_all_ahead(|| Some(self.gate.pass())))
            || is_made_by(&|| self.take_back_all_ahead())
            || is_made_by(&|| self.free_left_ahead())
            || self.compact().unwrap_or(false);
        self.space.made.fetch_add(u64::from(is_done), Ordering::Release);
        drop(one);
        // Not with that in hand: others may ask this one.
        let is_done = is_done || self.pool().take_spare(Some(self));
        is_done || self.when_let_go(|| is_made() || self.end_forerunners().unwrap_or(false))
    }

    /// Whether `is_made` says so, now or soon: who is in the middle of something with what is free already comes to its end,
    /// as do clients of an owner before (FG5).
    pub(crate) fn when_let_go(&self, is_made: impl Fn() -> bool) -> bool {
        let is_made_soon = || {
            std::thread::sleep(PIN_NAP);
            is_made()
        };
        let is_any_kept = || self.space.limbo.count() != (0, 0) || self.space.abroad.has_forerunners();
        is_made() || is_any_kept() && (0..PIN_NAPS).any(|_| is_made_soon())
    }

    /// Makes durable what waits for an fsync (FW4), if anything does. Called now and then, it bounds what a crash takes of
    /// files that nobody asked to be durable.
    ///
    /// # Errors
    /// As [`FileSystem::flush`].
    pub fn write_back(&self) -> Result<()> {
        if self.unsaved().is_some() { self.flush() } else { Ok(()) }
    }

    /// A number of what waits for an fsync, if anything does: it is the same as before where nothing was written since.
    pub fn unsaved(&self) -> Option<u64> {
        let (mut waits, mut writes) = (false, 0_u64);
        if self.waits() {
            self.locks.each(|stripe| {
                waits |= !stripe.waiting.is_empty();
                writes = writes.wrapping_add(stripe.serial);
            });
        }
        waits.then_some(writes)
    }
}
