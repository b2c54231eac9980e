//! Grants that this process no longer needs but could not release, because their owner had ended. This process releases them
//! when it opens the pool again; when this process has ended the next owner finds them by itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ferrite_pool::grant::GrantId;
use ferrite_pool::{Pool, Result};
use parking_lot::Mutex;

/// The file or device of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrphanFile {
    device: u64,
    inode: u64,
}

impl OrphanFile {
    /// Returns the file at `path`, if it exists.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { device: found.dev(), inode: found.ino() })
    }
}

static ORPHANS: Mutex<Vec<(OrphanFile, GrantId)>> = Mutex::new(Vec::new());

/// Notes a grant on the pool at `place` that this process no longer needs.
pub(super) fn leave(place: OrphanFile, id: GrantId) {
    ORPHANS.lock().push((place, id));
}

/// Takes the noted grants on the pool at `place`.
pub(super) fn take(place: OrphanFile) -> Vec<GrantId> {
    ORPHANS.lock().extract_if(.., |(at, _)| *at == place).map(|(_, id)| id).collect()
}

/// Ends the noted grants on the pool at `path`, which an earlier owner gave to this process. This process owns the pool now.
///
/// # Errors
/// As [`ferrite_pool::grant::Grants::release`].
pub fn end_orphans(pool: &Pool, path: &Path) -> Result<()> {
    let ours = std::process::id();
    for id in OrphanFile::of(path).map(take).unwrap_or_default() {
        if pool.grants().standing().iter().any(|grant| grant.id == id && grant.process.pid == ours) {
            pool.grants().release(pool, id)?;
        }
    }
    Ok(())
}
