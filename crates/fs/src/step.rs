//! Work that waits: done in bounded steps, by whoever has time.

use crate::fs::FileSystem;
use crate::{Error, Result};

impl FileSystem {
    /// Does one bounded step of what waits: freeing what large removed files held, moving files to superpages, giving
    /// chunks back to the pool; and keeps the books of clients. `false` when nothing waits.
    pub fn step(&self) -> Result<bool> {
        self.end_sessions();
        self.refuse_if_read_only()?;
        self.end_forerunners()?;
        self.fold_all_times();
        Ok(self.step_orphans()? || self.step_superpages()? || self.step_space()?)
    }

    /// What `work` comes to, tried again where it met no space while removed files still had some, which their users see free
    /// already, or clients had some for later. The caller has no lock, and has not passed the gate.
    pub(crate) fn with_space<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let done = work();
            let is_full = done.as_ref().is_err_and(Error::is_no_space);
            let is_worth_another = is_full && (matches!(self.step_orphans(), Ok(true)) || self.take_back_all_ahead());
            if !is_worth_another {
                return done;
            }
        }
    }

    /// Frees what removed files held, for who is about to say how much is free.
    pub(crate) fn settle_removed(&self) {
        // What fails is met again by a step.
        while self.refuse_if_read_only().is_ok() && matches!(self.step_orphans(), Ok(true)) {}
    }

    /// Makes durable what waits for an fsync (FW4), if anything does. Called every few seconds, it bounds what a crash
    /// takes of files that nobody asked to be durable.
    pub fn write_back(&self) -> Result<()> {
        let mut something = false;
        if self.waits() {
            self.locks.each(|stripe| something |= !stripe.waiting.is_empty());
        }
        if something { self.flush() } else { Ok(()) }
    }
}
