//! Clients of an owner that was killed, or that let go of the file system while they were stopped (FG5).
//!
//! Their shared state shows that the owner is gone, and they check it after each operation: late operations do not
//! count. But a store that was interrupted still happens, to a page that the file system had then, or to the size of
//! an inode. Their grants identify them.
//!
//! Most of them are idle. The owner cannot ask them, but each has the shared state open: if it shows, behind a
//! barrier, that no thread is pinned, the client stores nothing any more, and its grant ends. A process that cannot be
//! inspected keeps its grant until it ends: one in another pid namespace, or with a state of an older version of
//! Ferrite.

use std::path::Path;

use ferrite_memory::SHARED_WORDS_LINK;
use ferrite_pool::Tag;
use ferrite_pool::grant::{GrantId, Process, StandingGrant};

use crate::Result;
use crate::share::layout::shared_state::{SharedState, StateOwner};
use crate::share::sessions::refused;
use crate::share::shared_files::SharedFiles;

impl SharedFiles {
    /// Returns the identity in the shared states of this file system; `tag` is its current tag.
    pub(crate) fn state_owner(&self, tag: &Tag) -> StateOwner {
        StateOwner { pool: self.pool().superblock().uuid, generation: tag.generation }
    }

    /// Grants that stand on the file system and that it has not given since it was opened.
    fn orphaned_grants(&self) -> Vec<StandingGrant> {
        let generation = self.tag().generation;
        let mut standing = self.pool().grants().standing();
        let table = self.sessions.table.lock();
        standing.retain(|grant| grant.tag_generation == generation && !table.sessions.contains_key(&grant.id.0));
        standing
    }

    /// Returns true if there are any, without those whose processes have ended, or are in the middle of nothing.
    fn finds_orphaned_clients(&self) -> Result<bool> {
        self.pool().grants().reap(self.pool())?;
        for grant in self.orphaned_grants() {
            if self.is_left_by(grant.id) {
                self.release_session(grant.id)?;
            }
        }
        Ok(!self.orphaned_grants().is_empty())
    }

    /// Returns true if `session` stores nothing any more, according to every shared state that may list it: after the
    /// restore of a backup there may be two.
    fn is_left_by(&self, session: GrantId) -> bool {
        let Some(process) = self.pool().grants().process(session) else { return false };
        let state_owner = self.state_owner(&self.tag());
        let files = process.files_at(Path::new(SHARED_WORDS_LINK)).into_iter();
        let shared_states = files.filter_map(|file| SharedState::of(file.into()).ok());
        let mut theirs = shared_states.filter(|shared_state| shared_state.has(state_owner, session)).peekable();
        theirs.peek().is_some() && theirs.all(|shared_state| shared_state.is_left_by(session))
    }

    fn release_session(&self, session: GrantId) -> Result<()> {
        match self.pool().grants().release(self.pool(), session) {
            // Another thread released it first.
            Err(ferrite_pool::Error::Busy(_) | ferrite_pool::Error::NotFound(_)) => Ok(()),
            released => Ok(released?),
        }
    }

    /// Looks for such clients when the file system is opened, before any allocation.
    pub(crate) fn bar_orphaned_clients(&self) -> Result<()> {
        if self.finds_orphaned_clients()? {
            self.link.pins.set_orphaned_clients(true);
            self.space.bar(true);
        }
        Ok(())
    }

    /// Ends the grant of `process` that an owner before gave it.
    pub(crate) fn release_earlier_session(&self, session: GrantId, process: &Process) -> Result<()> {
        let is_theirs = |grant: &StandingGrant| grant.id == session && grant.process == process.identity();
        if !self.orphaned_grants().iter().any(is_theirs) {
            return refused("no owner before gave this process such a session");
        }
        self.release_session(session)?;
        self.end_orphaned_clients().map(drop)
    }

    /// Ends the grants that owners before gave `process`, and by which it stores nothing any more: all but those that
    /// are `held`. It may never have heard of one whose owner was killed just then.
    pub(crate) fn release_other_sessions(&self, held: &[GrantId], process: &Process) -> Result<()> {
        if !self.link.pins.has_orphaned_clients() {
            return Ok(());
        }
        let is_over = |grant: &StandingGrant| grant.process == process.identity() && !held.contains(&grant.id);
        for grant in self.orphaned_grants().into_iter().filter(is_over) {
            self.release_session(grant.id)?;
        }
        self.end_orphaned_clients().map(drop)
    }

    /// Makes space usable again that they might have stored to, once the last one has ended. Returns true if that is
    /// done.
    pub(crate) fn end_orphaned_clients(&self) -> Result<bool> {
        if !self.link.pins.has_orphaned_clients() {
            return Ok(false);
        }
        // A later caller bars the chunks that it empties itself (FE2).
        let _one = self.sessions.looking.lock();
        if self.link.pins.has_orphaned_clients() {
            if self.finds_orphaned_clients()? {
                return Ok(false);
            }
            self.space.bar(false);
            self.link.pins.set_orphaned_clients(false);
            self.locks.note_stopped_append();
        }
        Ok(true)
    }

    /// See [`crate::FileSystem::awaited_processes`].
    pub fn awaited_processes(&self) -> Vec<u32> {
        if !self.link.pins.has_orphaned_clients() {
            return Vec::new();
        }
        let mut processes: Vec<u32> = self.orphaned_grants().iter().map(|grant| grant.process.pid).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}
