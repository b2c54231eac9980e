//! Background work in bounded steps, and how space is freed for a change that finds none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ferrite_memory::planted;
use ferrite_pool::Freeze;
use ferrite_pool::grant::GrantId;

use crate::Result;
use crate::file::{ahead, compaction, size, superpage};
use crate::share::shared_files::SharedFiles;
use crate::store::reclaim::SpaceMaker;
use crate::tier;
use crate::tree::inode_lifetime;

/// Sleeps until a client that was in the middle of something has gone on, and how many: a second. One that is stopped
/// keeps what it had.
const PIN_NAP: Duration = Duration::from_millis(5);
const PIN_NAPS: u32 = 200;

/// See [`crate::FileSystem::step`].
pub(crate) fn step(shared: &SharedFiles) -> Result<bool> {
    shared.end_sessions();
    shared.forget_stale();
    shared.refuse_if_read_only()?;
    shared.end_orphaned_clients()?;
    shared.fold_all_times();
    Ok(inode_lifetime::step_orphans(shared)?
        || ahead::step_ahead(shared)?
        || superpage::step_superpages(shared)?
        || tier::step_tier(shared, &shared.tier)?
        || shared.step_space()?)
}

/// Frees the space of removed files, then pages ahead of appends, then empties sparse chunks. Returns true if some
/// space became free. One thread works at a time: a thread that waited for another, as `made` shows, uses what that
/// one freed.
fn make_space(shared: &SharedFiles, made: u64) -> bool {
    let one = shared.space.making.lock();
    if shared.space.made.load(Ordering::Acquire) != made {
        return true;
    }
    // Space that this caller freed earlier is not new.
    shared.space.drain_deferred_frees();
    let turn = shared.space.deferred_frees.turn();
    let is_made = || {
        shared.space.drain_deferred_frees();
        shared.space.deferred_frees.turn() != turn
    };
    // What fails is met again by a step.
    while matches!(inode_lifetime::step_orphans(shared), Ok(true)) {}
    let is_made_by = |work: &dyn Fn()| {
        work();
        is_made()
    };
    let is_done = is_made()
        || shared.end_orphaned_clients().unwrap_or(false)
        || is_made_by(&|| ahead::free_all_ahead(shared, || Some(shared.gate.pass())))
        || is_made_by(&|| shared.end_all_appends())
        || is_made_by(&|| ahead::free_left_ahead(shared))
        || is_made_by(&|| flush_sizes_for_tier(shared))
        || tier::make_room(shared, &shared.tier).unwrap_or(false)
        || compaction::compact(shared).unwrap_or(false);
    shared.space.made.fetch_add(u64::from(is_done), Ordering::Release);
    drop(one);
    // Without that lock, because others may ask this file system for space.
    let is_done = is_done || shared.pool().take_spare(Some(shared));
    let is_made_late = || {
        while matches!(inode_lifetime::step_orphans(shared), Ok(true)) {}
        is_made() || shared.end_orphaned_clients().unwrap_or(false)
    };
    is_done || wait_for_space(shared, is_made_late)
}

/// Makes sizes durable that wait: until then no page of their files goes to an SSD.
fn flush_sizes_for_tier(shared: &SharedFiles) {
    if shared.slots.is_some() && shared.waits() {
        let _pass = shared.gate.pass();
        let _ = size::flush_sizes(shared);
    }
}

/// Waits until `is_made` returns true, for a bounded time: threads that still use freed space will finish, and so will
/// clients of an earlier owner (FG5). A kernel releases a removed file after `unlink` has returned (FW5).
pub(crate) fn wait_for_space(shared: &SharedFiles, is_made: impl Fn() -> bool) -> bool {
    let is_made_soon = || {
        std::thread::sleep(PIN_NAP);
        is_made()
    };
    let is_release_due = || {
        let is_any = shared.sessions.is_mounted() && shared.orphans.has_just_unnamed(shared.now());
        is_any && !planted!("fs: no wait for a removed file")
    };
    let is_any_kept = || {
        let is_any_used = shared.space.deferred_frees.count() != (0, 0) || shared.link.pins.has_orphaned_clients();
        is_any_used || is_release_due()
    };
    is_made() || (0..PIN_NAPS).take_while(|_| is_any_kept()).any(|_| is_made_soon()) || is_made()
}

impl SpaceMaker for SharedFiles {
    fn make_space(&self, made: u64) -> bool {
        make_space(self, made)
    }
}

impl Freeze for SharedFiles {
    fn freeze(&self) {
        let all_stand_still = self.gate.close();
        self.sessions.note_still(all_stand_still);
        if self.link.has_writers() {
            // Who is stopped at the end of a file loses it: no size covers what a copy of the pool has not.
            self.locks.each(|_| ());
        }
        if self.waits() {
            // What waits can be loaded from the pool only when it is there.
            let _ = size::flush_sizes(self);
        }
        self.slots.iter().for_each(|slots| slots.note_freeze());
    }

    fn thaw(&self) {
        self.slots.iter().for_each(|slots| slots.note_copy());
        self.sessions.note_still(false);
        self.gate.open();
    }

    fn stilled(&self) -> Vec<GrantId> {
        self.sessions.stilled()
    }

    fn has_files_on(&self, device: u64) -> bool {
        self.sessions.device() == Some(device)
    }

    fn spare(&self) -> bool {
        if self.refuse_if_read_only().is_err() {
            return false;
        }
        // What fails is met again by a step.
        while matches!(inode_lifetime::step_orphans(self), Ok(true)) {}
        if !self.may_return_chunks() {
            return false;
        }
        ahead::free_all_ahead(self, || Some(self.gate.pass()));
        ahead::free_left_ahead(self);
        wait_for_space(self, || {
            let mut is_any = false;
            while matches!(self.return_all_chunks(), Ok(true)) {
                is_any = true;
            }
            is_any
        })
    }
}
