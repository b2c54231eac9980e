//! Grants whose holdings are gone from this process while nobody could be told: their owner had ended. Whoever owns the
//! pool next is told when this process comes to it again, or finds them itself when the process has ended.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ferrite_pool::grant::GrantId;
use ferrite_pool::{Pool, Result};
use parking_lot::Mutex;

/// The file or device of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// That at `path`, if something is there.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { device: found.dev(), inode: found.ino() })
    }
}

static ORPHANS: Mutex<Vec<(Place, GrantId)>> = Mutex::new(Vec::new());

/// Notes a grant on the pool at `place` that this process is done with.
pub(super) fn leave(place: Place, id: GrantId) {
    ORPHANS.lock().push((place, id));
}

/// Those of the pool at `place`, which are no longer noted.
pub(super) fn take(place: Place) -> Vec<GrantId> {
    ORPHANS.lock().extract_if(.., |(at, _)| *at == place).map(|(_, id)| id).collect()
}

/// Ends what this process still has of grants that an earlier owner of the pool at `path` gave it, and that it is done
/// with: for who owns the pool now.
///
/// # Errors
/// As [`ferrite_pool::grant::Grants::release`].
pub fn end_orphans(pool: &Pool, path: &Path) -> Result<()> {
    let ours = std::process::id();
    for id in Place::of(path).map(take).unwrap_or_default() {
        if pool.grants().standing().iter().any(|grant| grant.id == id && grant.process.pid == ours) {
            pool.grants().release(pool, id)?;
        }
    }
    Ok(())
}
