//! Sessions of owners that have ended, of which this process has let go: the next owner of the pool is told, and takes their
//! grants back. Until then it must take it that something may still be stored by them (FG5). And those by which this process
//! may still store, of which it tells whoever lets it in: all others are over.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_pool::grant::GrantId;
use parking_lot::Mutex;

use ferrite_fs::share::layout::shared_state::SharedState;

/// Sessions that this process holds at once, of all pools, with those of its parents.
const HELD: usize = 1024;

/// No lock, which a child would find taken that is forked meanwhile. 0 is no session's.
static SESSIONS: [AtomicU64; HELD] = [const { AtomicU64::new(0) }; HELD];

/// A session that this process holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldSession(usize);

impl HeldSession {
    /// `None` where they are too many.
    pub fn of(session: GrantId) -> Option<Self> {
        let is_free =
            |word: &AtomicU64| word.compare_exchange(0, session.0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        SESSIONS.iter().position(is_free).map(Self)
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        SESSIONS[self.0].store(0, Ordering::SeqCst);
    }
}

/// All of them. To be asked by who has reached the owner: by a session of one before that begins later nothing is stored.
pub(crate) fn held() -> Vec<GrantId> {
    let sessions = SESSIONS.iter().map(|word| word.load(Ordering::SeqCst));
    sessions.filter(|session| *session != 0).map(GrantId).collect()
}

/// What a session was of. Dropped behind all else that the session had.
#[derive(Clone, Debug)]
pub(crate) struct LeftSession {
    pub pool: PathBuf,
    pub name: String,
    pub grant: GrantId,
    /// Until it is told: the next owner looks for it here.
    pub _board: Arc<SharedState>,
    /// A child that was forked has its parent's, which is not mapped there.
    pub process: u32,
    /// Whether its owner does not know that it has ended.
    pub is_to_report: bool,
}

static LEFT: Mutex<Vec<LeftSession>> = Mutex::new(Vec::new());

impl Drop for LeftSession {
    fn drop(&mut self) {
        // A child that was forked may find it locked for good. What is not told ends with the process.
        if mem::take(&mut self.is_to_report)
            && let Some(mut left) = LEFT.try_lock()
        {
            left.push(self.clone());
        }
    }
}

/// Those of the file system called `name` in the pool at `pool`, to be told now.
pub(crate) fn taken(pool: &Path, name: &str) -> Vec<GrantId> {
    let Some(mut left) = LEFT.try_lock() else { return Vec::new() };
    let taken = left.extract_if(.., |one| one.pool == pool && one.name == name);
    let (ours, theirs): (Vec<_>, Vec<_>) = taken.partition(|one| one.process == std::process::id());
    mem::forget(theirs);
    ours.iter().map(|one| one.grant).collect()
}
