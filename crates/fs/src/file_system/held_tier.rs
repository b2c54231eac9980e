//! A tier that a backup copies.

use std::sync::Arc;

use crate::share::shared_files::SharedFiles;
use crate::store::slots::{SlotStore, held_segments};
use crate::{Error, Result};

/// The SSDs of a tier, from [`crate::FileSystem::hold_tier`] on. The first freeze of the pool after that takes what words
/// name then, and nothing of that is overwritten until this is dropped.
pub struct HeldTier {
    shared: Arc<SharedFiles>,
}

impl std::fmt::Debug for HeldTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldTier").finish_non_exhaustive()
    }
}

impl HeldTier {
    /// Wants the hold; `None` without a tier.
    pub(super) fn want(shared: &Arc<SharedFiles>) -> Result<Option<Self>> {
        let Some(slots) = &shared.slots else { return Ok(None) };
        slots.want_hold()?;
        Ok(Some(Self { shared: Arc::clone(shared) }))
    }

    fn slots(&self) -> &SlotStore {
        self.shared.slots.as_ref().expect("a hold is of a tier")
    }

    /// Returns how many bytes each SSD has, and how many bytes of its segments are held.
    ///
    /// # Errors
    /// [`Error::Ssd`] if an SSD fails, [`Error::Refused`] if another backup froze the pool since.
    pub fn ssds(&self) -> Result<Vec<(u64, u64)>> {
        self.slots().held()
    }

    /// Passes the stamp and the held segments of SSD number `ssd` to `each`, with their offsets in bytes. The rest of a
    /// copy may be anything. With the image of the same freeze, the copy is as good as the SSD was.
    ///
    /// # Errors
    /// As [`HeldTier::ssds`]; the errors of `each`.
    pub fn copy(&self, ssd: usize, each: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        self.slots().copy_held(ssd, each)
    }

    /// Refuses to overwrite a file that begins with `head`, 8 KiB if it has as many, unless it is a copy of an SSD of this
    /// pool.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn ensure_may_replace(&self, head: &[u8]) -> Result<()> {
        match held_segments::is_copy(head, &self.shared.pool().superblock().uuid) {
            true => Ok(()),
            false => Err(Error::Refused("is no copy of an SSD of this pool: move it away".into())),
        }
    }
}

impl Drop for HeldTier {
    fn drop(&mut self) {
        self.slots().end_hold();
    }
}
