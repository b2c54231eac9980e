//! Space that other users leave to root and to the user who serves the mount, as ext4 does.
//!
//! - MR1. While less than the reserve is free, other users get ENOSPC for what needs new space: new files, content where
//!   none is, attributes. They overwrite, cut and remove as before. What the kernel wrote back late counts as a write of the
//!   file's owner. Between two looks at the free space other users take at most [`UNCHECKED_BYTES`].

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_fs::{Error, Ino, Result, Seek, Statfs};
use rustix::process::geteuid;

use super::front::Front;

/// What is written at most before the free space is looked at again: the look visits every chunk.
const UNCHECKED_BYTES: u64 = 16 << 20;
/// What a new name or an attribute may take.
pub(super) const NAME_BYTES: u64 = 4096;

/// How much is reserved, and for whom besides root.
pub(super) struct Reserve {
    percent: u64,
    user: u32,
    /// Bytes that may be written before the next look.
    unchecked_bytes: AtomicU64,
}

impl Reserve {
    pub fn new(percent: u8) -> Self {
        Self { percent: percent.into(), user: geteuid().as_raw(), unchecked_bytes: AtomicU64::new(0) }
    }

    /// Bytes of `space` that other users leave.
    pub fn bytes(&self, space: &Statfs) -> u64 {
        space.total_bytes / 100 * self.percent
    }

    /// Whether `bytes` may be written without a look; they count.
    fn spend(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.unchecked_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether `space` has `bytes` more for other users. Sets how many may be written before the next look.
    fn look(&self, space: &Statfs, bytes: u64) -> bool {
        let for_others = space.free_bytes.saturating_sub(self.bytes(space));
        let unchecked_bytes = if for_others < bytes { 0 } else { (for_others / 4).min(UNCHECKED_BYTES) };
        self.unchecked_bytes.store(unchecked_bytes, Ordering::Relaxed);
        for_others >= bytes
    }

    fn is_for(&self, uid: u32) -> bool {
        uid == 0 || uid == self.user
    }
}

impl Front {
    /// Refuses user `uid` `bytes` of new space if they are of the reserve.
    pub(super) fn ensure_room(&self, uid: u32, bytes: u64) -> Result<()> {
        self.ensure_room_unless(uid, bytes, || false)
    }

    /// Refuses user `uid` a write of `len` bytes to `ino` from byte `at` on if it needs new space of the reserve; an append
    /// always needs some.
    pub(super) fn ensure_room_at(&self, uid: u32, (ino, at): (Ino, Option<u64>), len: u64) -> Result<()> {
        let is_overwrite = |at: u64| self.fs.seek(ino, at, Seek::Hole).is_ok_and(|hole| hole >= at.saturating_add(len));
        self.ensure_room_unless(uid, len, || at.is_some_and(is_overwrite))
    }

    /// The same for what the kernel writes back late, which it does not say by whom.
    pub(super) fn ensure_room_late(&self, ino: Ino, at: u64, len: u64) -> Result<()> {
        if self.reserve.percent == 0 {
            return Ok(());
        }
        self.ensure_room_at(self.fs.getattr(ino)?.uid, (ino, Some(at)), len)
    }

    fn ensure_room_unless(&self, uid: u32, bytes: u64, needs_none: impl FnOnce() -> bool) -> Result<()> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::ReserveTaken) {
            return Ok(());
        }
        let reserve = &self.reserve;
        if reserve.percent == 0 || reserve.spend(bytes) || reserve.is_for(uid) || needs_none() {
            return Ok(());
        }
        if reserve.look(&self.fs.statfs(), bytes) { Ok(()) } else { Err(Error::NoSpace) }
    }
}
