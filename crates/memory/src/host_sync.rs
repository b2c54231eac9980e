//! Syncing a host's file: the barrier of a mapping, and the flush of a disk on a file.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Error, Result};

/// One `fdatasync` at a time, shared by all threads that wait for it. The kernel reports a write-back error to one
/// caller per descriptor only, so two concurrent calls could hide a loss from each other. After a failed call the lost
/// pages count as clean, so a later success would mean nothing (M4, D2).
#[derive(Default)]
pub struct HostSync {
    turn: Mutex<()>,
    /// The number of successful syncs.
    ended: AtomicU64,
    /// The number of started syncs.
    started: AtomicU64,
    poison: OnceLock<String>,
}

impl HostSync {
    /// Makes all earlier writes and stores to the file durable. The kernel marks a page of a shared mapping dirty at
    /// its first store after each write-back, so syncing the file finds it without `msync`.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] if the sync fails, [`Error::Poisoned`] after that.
    pub fn sync(&self, file: &File) -> Result<()> {
        let before = self.started.load(Ordering::SeqCst);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.ensure_sound()?;
        if self.ended.load(Ordering::SeqCst) > before {
            return Ok(());
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        file.sync_data().map_err(|why| self.poison(why))?;
        self.ended.store(number, Ordering::SeqCst);
        Ok(())
    }

    /// Makes a part of the file durable by `sync`. If another thread is syncing, waits for the next sync of the whole
    /// file instead.
    ///
    /// # Errors
    /// The errors of [`Self::sync`].
    pub fn sync_part(&self, file: &File, sync: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let Ok(_turn) = self.turn.try_lock() else { return self.sync(file) };
        self.ensure_sound()?;
        sync().map_err(|why| self.poison(why))
    }

    /// Poisons the file because a durable write (FUA) failed: with its error the kernel may have reported the loss of
    /// other data.
    pub fn doubt(&self, why: &io::Error) {
        self.poison.get_or_init(|| why.to_string());
    }

    /// Checks that no sync has failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed sync.
    pub fn ensure_sound(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    fn poison(&self, why: io::Error) -> Error {
        self.poison.get_or_init(|| why.to_string());
        Error::io("making the file durable", why)
    }
}
