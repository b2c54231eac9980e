//! Leases: how the owner grants, limits and ends them.

use ferrite_memory::planted;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::noted_times::NotedTimes;
use crate::share::layout::lease_state::{LeaseMode, LeaseState};
use crate::share::layout::request::{GrantedLease, LeaseAccess, LeaseAnswer};
use crate::share::layout::shared_state::stripe;
use crate::share::sessions::{LeaseEntry, SessionTable, refused};
use crate::share::shared_files::SharedFiles;
use crate::store::clients::Appender;
use crate::tree::{inode_lifetime, lookup, setattr, xattr};
use crate::{Error, FileKind, Ino, Result, SetAttr};

impl SharedFiles {
    /// Gives `session` a lease on `ino`; `seen_ends` is as it comes with the request.
    pub(crate) fn grant_lease(
        &self,
        session: u64,
        ino: Ino,
        access: LeaseAccess,
        seen_ends: Option<u32>,
    ) -> Result<LeaseAnswer> {
        self.load_regular(ino)?;
        inode_lifetime::hold(self, ino)?;
        let entered = self.enter_lease(session, ino, access);
        if entered.is_err() {
            inode_lifetime::release(self, ino, 1);
        }
        let entry = entered?;
        if entry.access > LeaseAccess::Read {
            self.ensure_plain(ino).inspect_err(|_| self.end_lease(session, ino))?;
        }
        if entry.access == LeaseAccess::Write {
            // A client that appends to the file is no longer alone.
            self.limit_leases(ino, LeaseAccess::Write);
        }
        if entry.access > LeaseAccess::Read
            && let Some(ends) = self.ends_unknown(ino, seen_ends)
        {
            self.end_lease(session, ino);
            return Ok(LeaseAnswer::Behind { ends });
        }
        self.begin(session, ino, entry).map(LeaseAnswer::Granted).inspect_err(|_| self.end_lease(session, ino))
    }

    /// See [`crate::FileSystem::expect_more`].
    pub fn expect_more(&self, ino: Ino) {
        planted!("fs: hasty appender" => return);
        if let Some(hold) = self.locks.write(ino).holds.get_mut(&ino.0) {
            hold.ends = hold.ends.wrapping_add(1);
        }
    }

    /// Returns the count of ended appends to `ino` if the kernel may not know the last end (FG8), or may still be
    /// appending (FG11), unless the client has `seen_ends`. The count is stable during the call, because the table
    /// lists a client that may write to the file.
    fn ends_unknown(&self, ino: Ino, seen_ends: Option<u32>) -> Option<u32> {
        let mut stripe = self.locks.write(ino);
        let hold = stripe.holds.get_mut(&ino.0)?;
        if seen_ends == Some(hold.ends) {
            hold.known_ends = hold.ends;
        }
        (hold.known_ends != hold.ends).then_some(hold.ends)
    }

    /// Enters a lease in the table; its client cannot use it yet.
    fn enter_lease(&self, session: u64, ino: Ino, access: LeaseAccess) -> Result<LeaseEntry> {
        let mut table = self.sessions.table.lock();
        let session_entry = table.sessions.get(&session).filter(|session_entry| !session_entry.is_ending);
        let Some(session_entry) = session_entry else { return refused("the session has ended") };
        if access > LeaseAccess::Read && !session_entry.writable {
            return Err(Error::ReadOnly);
        }
        if table.leases.contains_key(&(ino.0, session)) {
            return refused("the session has a lease on this file");
        }
        if access == LeaseAccess::Append && table.of(ino).any(|entry| entry.access > LeaseAccess::Read) {
            return refused("others write to the file too: write over what is there only");
        }
        let Some((slot, serial)) = table.take_slot() else { return refused("too many files are leased") };
        let entry = LeaseEntry { slot, serial, access };
        self.link.pins.note_leased(session, stripe(ino));
        table.leases.insert((ino.0, session), entry);
        self.link.leases.fetch_add(1, Ordering::SeqCst);
        self.link.writers.fetch_add(usize::from(access > LeaseAccess::Read), Ordering::SeqCst);
        Ok(entry)
    }

    /// Makes a lease in the table usable, once no cached copy is left that its holder could make stale (FG6).
    fn begin(&self, session: u64, ino: Ino, entry: LeaseEntry) -> Result<GrantedLease> {
        let copies = self.sessions.table.lock().copies.as_ref().map(Arc::clone);
        if let Some(copies) = copies.filter(|_| entry.access > LeaseAccess::Read)
            && let Err(why) = copies.forget(ino)
        {
            return refused(format!("the kernel keeps its copy of the file: {why}"));
        }
        let mut stripe = self.locks.write(ino);
        self.update_other_counts(ino);
        let table = self.sessions.table.lock();
        match table.leases.get(&(ino.0, session)) {
            Some(now) if (now.serial, now.access) == (entry.serial, entry.access) => {
                if entry.access == LeaseAccess::Append {
                    if self.is_append_stopped(&stripe, ino) {
                        return refused("a client was stopped while it appended to the file");
                    }
                    self.space.shared_state.forget_size_before(entry.slot);
                    stripe.appenders.push(Appender { ino, slot: entry.slot, serial: entry.serial });
                }
                self.space
                    .shared_state
                    .lease(entry.slot)
                    .store(LeaseState::new(entry.serial, entry.access).0, Ordering::SeqCst);
                Ok(GrantedLease {
                    slot: entry.slot as u32,
                    serial: entry.serial,
                    access: entry.access,
                    has_ahead: false,
                })
            }
            _ => refused("the file is in use through the mount"),
        }
    }

    /// Only a program that asks the kernel loses set-id bits by writing. Checked once the lease is in the session
    /// table (FG9).
    fn ensure_plain(&self, ino: Ino) -> Result<()> {
        let attr = lookup::getattr(self, ino)?;
        let is_plain = attr.kind == FileKind::File && attr.mode & 0o6000 == 0;
        let is_plain = is_plain && matches!(xattr::xattr(self, ino, b"security.capability"), Err(Error::NoAttribute));
        planted!("fs: file found plain" => ());
        if is_plain {
            return Ok(());
        }
        refused("a program with rights of its own is written through the mount")
    }

    /// See [`crate::FileSystem::is_written_directly`].
    pub fn is_written_directly(&self, ino: Ino) -> bool {
        self.link.has_writers() && self.sessions.table.lock().of(ino).any(|entry| entry.access > LeaseAccess::Read)
    }

    /// See [`crate::FileSystem::end_writing`].
    pub fn end_writing(&self, ino: Ino) {
        if self.is_written_directly(ino) {
            self.limit_leases(ino, LeaseAccess::Read);
            self.fold_times(ino);
        }
    }

    /// Leaves of the leases on `ino` no more than `most`. Those that have not begun will not begin.
    pub(crate) fn limit_leases(&self, ino: Ino, most: LeaseAccess) {
        let mut stripe = self.locks.write(ino);
        let had_appender = stripe.has_appender(ino);
        stripe.appenders.retain(|appender| appender.ino != ino);
        let mut table = self.sessions.table.lock();
        let mut ended = 0;
        for entry in table.of(ino).filter(|entry| entry.access > most) {
            entry.access = most;
            ended += usize::from(most == LeaseAccess::Read);
            let word = self.space.shared_state.lease(entry.slot);
            if LeaseState(word.load(Ordering::SeqCst)).mode(entry.serial) >= LeaseMode::Read {
                word.store(LeaseState::new(entry.serial, most).0, Ordering::SeqCst);
            }
        }
        drop(table);
        self.link.writers.fetch_sub(ended, Ordering::SeqCst);
        self.link.pins.pass();
        if had_appender {
            self.end_appends(&mut stripe, ino);
        }
    }

    /// Takes the lease of `session` on `ino` back.
    pub(crate) fn end_lease(&self, session: u64, ino: Ino) {
        let mut stripe = self.locks.write(ino);
        let mut table = self.sessions.table.lock();
        let Some(entry) = table.leases.remove(&(ino.0, session)) else { return };
        let had_appender = stripe.appenders.iter().any(|appender| appender.slot == entry.slot);
        stripe.appenders.retain(|appender| appender.slot != entry.slot);
        let noted = self.end_out(&mut table, entry);
        drop(table);
        if had_appender {
            self.end_appends(&mut stripe, ino);
        }
        if !noted.is_nothing()
            && self.refuse_if_read_only().is_ok()
            && let Some(_pass) = self.gate.try_pass()
        {
            self.keep_times(&stripe, ino, &[noted]);
        }
        self.update_other_counts(ino);
        // The inode must not be reused while a stopped client may still store to it. Entered under the file's lock, so
        // that `forget_stopped_appends` runs earlier or finds it.
        let is_kept = stripe.stopped_appends.contains_key(&ino.0);
        if is_kept {
            self.sessions.table.lock().kept.push(ino);
        }
        drop(stripe);
        if !is_kept {
            inode_lifetime::release(self, ino, 1);
        }
    }

    /// Tells those who have a lease on `ino` how many others have one; its lock is held.
    fn update_other_counts(&self, ino: Ino) {
        let mut table = self.sessions.table.lock();
        let others = table.of(ino).count().saturating_sub(1) as u64;
        table.of(ino).for_each(|entry| self.space.shared_state.others(entry.slot).store(others, Ordering::Release));
    }

    /// Cuts `ino`, which `session` may write to, or grows it by a hole.
    pub(crate) fn resize(&self, session: u64, ino: Ino, size: u64) -> Result<()> {
        let (access, copies) = {
            let table = self.sessions.table.lock();
            (table.leases.get(&(ino.0, session)).map(|entry| entry.access), table.copies.as_ref().map(Arc::clone))
        };
        if access.is_none_or(|access| access < LeaseAccess::Write) {
            return refused("the session may not write to this file");
        }
        setattr::setattr(self, ino, &SetAttr { size: Some(size), ..SetAttr::default() })?;
        // A reader may have come through the mount in between, and have a copy of the bytes that were cut off (FG6).
        match copies.map_or(Ok(()), |copies| copies.forget(ino)) {
            Ok(()) => Ok(()),
            Err(why) => refused(format!("the kernel keeps its copy of the file: {why}")),
        }
    }

    fn end_out(&self, table: &mut SessionTable, entry: LeaseEntry) -> NotedTimes {
        let shared_state = &self.space.shared_state;
        shared_state.lease(entry.slot).store(LeaseState::VOID.0, Ordering::SeqCst);
        self.link.pins.pass();
        let noted = shared_state.take_noted_times(entry.slot);
        table.return_slot(entry.slot);
        self.link.leases.fetch_sub(1, Ordering::SeqCst);
        self.link.writers.fetch_sub(usize::from(entry.access > LeaseAccess::Read), Ordering::SeqCst);
        noted
    }
}
