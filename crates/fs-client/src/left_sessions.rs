//! Sessions whose owner has ended and which this process has released. The next owner of the pool must learn of them
//! to release their grants; until then it assumes that they may still store (FG5). This module also lists the sessions
//! that may still store: a new owner treats all others as over.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_pool::grant::GrantId;
use parking_lot::Mutex;

use ferrite_fs::share::layout::shared_state::SharedState;

/// Sessions that this process may hold at once, of all pools, including sessions of its parents.
const HELD: usize = 1024;

/// Without a lock, because a child that is forked at the wrong time would find it locked for good. 0 means free.
static SESSIONS: [AtomicU64; HELD] = [const { AtomicU64::new(0) }; HELD];

/// A session that this process holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldSession(usize);

impl HeldSession {
    /// Returns `None` if there are too many.
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

/// Returns all of them. Call it after the owner is reached: a session with an earlier owner that begins later stores
/// nothing.
pub(crate) fn held() -> Vec<GrantId> {
    let sessions = SESSIONS.iter().map(|word| word.load(Ordering::SeqCst));
    sessions.filter(|session| *session != 0).map(GrantId).collect()
}

/// The identity of a session. Dropped after all other parts of the session.
#[derive(Clone, Debug)]
pub(crate) struct LeftSession {
    pub pool: PathBuf,
    pub name: String,
    pub grant: GrantId,
    /// Kept until the owner knows: the next owner looks for it here.
    pub _board: Arc<SharedState>,
    /// A child that was forked has its parent's, which is not mapped there.
    pub process: u32,
    /// Whether its owner does not know that it has ended.
    pub is_to_report: bool,
}

static LEFT: Mutex<Vec<LeftSession>> = Mutex::new(Vec::new());

impl Drop for LeftSession {
    fn drop(&mut self) {
        // A child that was forked may find it locked for good. Sessions that are not reported end with the process.
        if mem::take(&mut self.is_to_report)
            && let Some(mut left) = LEFT.try_lock()
        {
            left.push(self.clone());
        }
    }
}

/// Returns the sessions on the file system called `name` in the pool at `pool` that the owner must learn of now.
pub(crate) fn taken(pool: &Path, name: &str) -> Vec<GrantId> {
    let Some(mut left) = LEFT.try_lock() else { return Vec::new() };
    let taken = left.extract_if(.., |one| one.pool == pool && one.name == name);
    let (ours, theirs): (Vec<_>, Vec<_>) = taken.partition(|one| one.process == std::process::id());
    mem::forget(theirs);
    ours.iter().map(|one| one.grant).collect()
}
