//! Clients of an owner that was killed, or that let go of the file system while they were stopped (FG5).
//!
//! Their board says that their owner is gone, and they look at it after all they do: what they did late they do not vouch
//! for. But where they were stopped in the middle of a store it will still happen, to a page that the file system had then,
//! or to the size of an inode. They are known by their grants.

use ferrite_pool::grant::{GrantId, Process, Standing};

use super::desk::refused;
use crate::Result;
use crate::fs::FileSystem;

impl FileSystem {
    /// Whether grants stand on the file system that it has not given since it was opened.
    fn finds_forerunners(&self) -> Result<bool> {
        self.pool().grants().reap(self.pool())?;
        let generation = self.tag().generation;
        let standing = self.pool().grants().standing();
        let books = self.desk.books.lock();
        let is_strange = |id: u64| !books.visits.contains_key(&id);
        Ok(standing.iter().any(|grant| grant.tag_generation == generation && is_strange(grant.id.0)))
    }

    /// Looks for them when the file system is opened: before anything is given to anybody.
    pub(crate) fn bar_forerunners(&self) -> Result<()> {
        if self.finds_forerunners()? {
            self.space.abroad.set_forerunners(true);
            self.space.bar(true);
        }
        Ok(())
    }

    /// Ends the grant of `process` that an owner before gave it.
    pub(super) fn let_go(&self, session: GrantId, process: &Process) -> Result<()> {
        let generation = self.tag().generation;
        let is_theirs = |grant: &Standing| {
            grant.id == session && grant.process == process.identity() && grant.tag_generation == generation
        };
        let is_ours = self.desk.books.lock().visits.contains_key(&session.0);
        if is_ours || !self.pool().grants().standing().iter().any(is_theirs) {
            return refused("no owner before gave this process such a session");
        }
        self.pool().grants().release(self.pool(), session)?;
        self.end_forerunners()
    }

    /// Uses again what they might have stored to, when the last one has ended.
    pub(crate) fn end_forerunners(&self) -> Result<()> {
        if self.space.abroad.has_forerunners() && !self.finds_forerunners()? {
            self.space.bar(false);
            self.space.abroad.set_forerunners(false);
            self.locks.note_haunted();
        }
        Ok(())
    }
}
