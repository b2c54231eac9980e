//! Space that only root and the user who serves the mount may use, as on ext4.
//!
//! - MR1. If less than the reserve is free, other users get ENOSPC for requests that need new space: new files, content
//!   in holes, attributes. They overwrite, truncate and remove files as before. A late write-back of the kernel counts
//!   as a write of the file's owner. Between two checks of the free space other users get at most [`UNCHECKED_BYTES`].

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_fs::{Error, Ino, Result, Seek, Statfs};
use ferrite_memory::planted;
use rustix::process::geteuid;

use super::server::FuseFs;

/// Bytes that users write at most between two checks of the free space: a check visits every chunk.
const UNCHECKED_BYTES: u64 = 16 << 20;
/// Bytes that a new name or an attribute may need.
pub(super) const NAME_BYTES: u64 = 4096;

/// The reserved share of the space, and the user who may use it besides root.
pub(super) struct Reserve {
    percent: u64,
    user: u32,
    /// Bytes that users may write before the next check.
    unchecked_bytes: AtomicU64,
}

impl Reserve {
    pub fn new(percent: u8) -> Self {
        Self { percent: percent.into(), user: geteuid().as_raw(), unchecked_bytes: AtomicU64::new(0) }
    }

    /// Returns the reserved bytes of `space`.
    pub fn bytes(&self, space: &Statfs) -> u64 {
        space.total_bytes / 100 * self.percent
    }

    /// Returns true, and counts `bytes`, if a user may write them without a check.
    fn spend(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.unchecked_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Returns true if `space` has `bytes` more for other users. Sets how many users may write before the next check.
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

impl FuseFs {
    /// Refuses user `uid` new space of `bytes` if only the reserve has so much.
    pub(super) fn ensure_room(&self, uid: u32, bytes: u64) -> Result<()> {
        self.ensure_room_unless(uid, bytes, || false)
    }

    /// Refuses user `uid` a write of `len` bytes to `ino` from byte `at` on if it needs new space and only the reserve
    /// has so much. An append always needs new space.
    pub(super) fn ensure_room_at(&self, uid: u32, ino: Ino, at: Option<u64>, len: u64) -> Result<()> {
        let is_overwrite = |at: u64| self.fs.seek(ino, at, Seek::Hole).is_ok_and(|hole| hole >= at.saturating_add(len));
        self.ensure_room_unless(uid, len, || at.is_some_and(is_overwrite))
    }

    /// Checks a late write-back of the kernel as a write of the file's owner: the kernel does not name its user.
    pub(super) fn ensure_room_late(&self, ino: Ino, at: u64, len: u64) -> Result<()> {
        if self.reserve.percent == 0 {
            return Ok(());
        }
        self.ensure_room_at(self.fs.getattr(ino)?.uid, ino, Some(at), len)
    }

    fn ensure_room_unless(&self, uid: u32, bytes: u64, needs_none: impl FnOnce() -> bool) -> Result<()> {
        if planted!("mount: reserve taken") {
            return Ok(());
        }
        let reserve = &self.reserve;
        if reserve.percent == 0 || reserve.spend(bytes) || reserve.is_for(uid) || needs_none() {
            return Ok(());
        }
        if reserve.look(&self.fs.statfs(), bytes) { Ok(()) } else { Err(Error::NoSpace) }
    }
}
