//! Sessions of owners that have ended, of which this process has let go: the next owner of the pool is told, and takes their
//! grants back. Until then it must take it that something may still be stored by them (FG5).

use std::mem;
use std::path::{Path, PathBuf};

use ferrite_pool::grant::GrantId;
use parking_lot::Mutex;

/// What a session was of. Dropped behind all else that the session had.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub pool: PathBuf,
    pub name: String,
    pub grant: GrantId,
    /// Whether its owner does not know that it has ended.
    pub is_to_tell: bool,
}

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());

impl Drop for Left {
    fn drop(&mut self) {
        // A child that was forked may find it locked for good. What is not told ends with the process.
        if mem::take(&mut self.is_to_tell)
            && let Some(mut left) = LEFT.try_lock()
        {
            left.push(self.clone());
        }
    }
}

/// Those of the file system called `name` in the pool at `pool`, to be told now.
pub(super) fn taken(pool: &Path, name: &str) -> Vec<GrantId> {
    let Some(mut left) = LEFT.try_lock() else { return Vec::new() };
    left.extract_if(.., |one| one.pool == pool && one.name == name).map(|one| one.grant).collect()
}
