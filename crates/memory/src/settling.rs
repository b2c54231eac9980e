//! Making a host's file durable: the barrier of a mapping and the flush of a disk whose host holds bytes back.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Error, Result};

/// One `fdatasync` at a time, shared by all who wait for it. The kernel tells a write-back error to one caller per
/// descriptor only, so two that ran side by side could hide a loss from each other; and after a failed one the lost
/// pages count as clean, so that a later success would mean nothing (M4, D2).
#[derive(Default)]
pub struct Settling {
    turn: Mutex<()>,
    /// Syncs that have ended well.
    ended: AtomicU64,
    /// Syncs that have started.
    started: AtomicU64,
    poison: OnceLock<String>,
}

impl Settling {
    /// Makes all that was written or stored to the file before the call durable. The kernel marks a shared mapping's
    /// page dirty at its first store after each write-back, so that syncing the file finds it without `msync`.
    ///
    /// # Errors
    /// [`Error::Io`] if the sync fails, and [`Error::Poisoned`] ever after.
    pub fn settle(&self, file: &File) -> Result<()> {
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

    /// The same for what `sync` makes durable; where others are amid a sync, with theirs, by the next one for all of the file.
    ///
    /// # Errors
    /// [`Error::Io`] if the sync fails, and [`Error::Poisoned`] ever after.
    pub fn settle_part(&self, file: &File, sync: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let Ok(_turn) = self.turn.try_lock() else { return self.settle(file) };
        self.ensure_sound()?;
        sync().map_err(|why| self.poison(why))
    }

    /// Notes that a write which was to be durable by itself failed: the kernel may have told it of the loss of others.
    pub fn doubt(&self, why: &io::Error) {
        self.poison.get_or_init(|| why.to_string());
    }

    /// Refuses once a sync has failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a sync has failed.
    pub fn ensure_sound(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    fn poison(&self, why: io::Error) -> Error {
        self.poison.get_or_init(|| why.to_string());
        Error::io("making the file durable", why)
    }
}
