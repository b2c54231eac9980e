//! The owner's sessions with clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::LivenessWord;
use ferrite_owner::ServiceReply;
use ferrite_pool::grant::{GrantId, GrantRequest, GrantRights, Process};
use ferrite_pool::{Caller, Failure};
use parking_lot::Mutex;
use serde_json::json;

use crate::file::{ahead, fsync};
use crate::share::client_transfer::{SessionArea, TransferAreas};
use crate::share::layout::request::{ClientRequest, LeaseAccess, LeaseAnswer, SessionGrant};
use crate::share::layout::shared_state::{LAYOUT, LEASES, ensure_alike};
use crate::share::shared_files::SharedFiles;
use crate::{DataMode, Error, Ino, Result};

/// A holder of cached copies of files, such as a kernel that has mounted the file system.
pub trait CachedCopies: Send + Sync {
    /// Drops all cached content and attributes of `ino`; none is left on return. Waits for reads and writes through
    /// the cache, so the caller must not block those.
    ///
    /// # Errors
    /// Fails if copies may be left.
    fn forget(&self, ino: Ino) -> std::io::Result<()>;

    /// Drops the cached attributes of `ino`, and no content. Does not wait.
    fn forget_attributes(&self, ino: Ino);

    /// Returns the kernel's device number of the mount, as `stat` returns it for each file, if it is known.
    fn device(&self) -> Option<u64>;
}

/// A session.
#[derive(Debug)]
pub(crate) struct OpenSession {
    pub grant: GrantId,
    /// The connection it came by.
    pub connection: u64,
    pub writable: bool,
    /// Its leases are gone; it ends when no thread of it is pinned.
    pub is_ending: bool,
    /// The area for requests that carry bytes, if the file system has a tier and an area was free.
    pub area: Option<Arc<SessionArea>>,
}

/// A lease that is out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseEntry {
    pub slot: usize,
    pub serial: u64,
    pub access: LeaseAccess,
}

#[derive(Default)]
pub(crate) struct SessionTable {
    pub sessions: BTreeMap<u64, OpenSession>,
    /// The leases, by inode and session.
    pub leases: BTreeMap<(u64, u64), LeaseEntry>,
    free: Vec<usize>,
    /// Slots beyond this were never used.
    used: usize,
    serial: u64,
    pub liveness: Option<LivenessWord>,
    pub copies: Option<Arc<dyn CachedCopies>>,
    /// Files that stay held until no stopped client can store to them.
    pub kept: Vec<Ino>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) table: Mutex<SessionTable>,
    pub(crate) areas: TransferAreas,
    /// Every client stands still, because the gate is closed.
    is_still: AtomicBool,
    /// Held while sessions are ended: a caller that waited finds them ended.
    pub(crate) ending: Mutex<()>,
    /// Held while clients of an earlier owner are looked for.
    pub(crate) looking: Mutex<()>,
}

impl SessionTable {
    /// Allocates a lease slot among the shared words, and a serial.
    pub fn take_slot(&mut self) -> Option<(usize, u64)> {
        let slot = self.free.pop().or_else(|| {
            let fresh = self.used;
            (fresh < LEASES).then(|| self.used += 1)?;
            Some(fresh)
        })?;
        self.serial += 1;
        Some((slot, self.serial))
    }

    pub fn return_slot(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// The leases on `ino`.
    pub fn of(&mut self, ino: Ino) -> impl Iterator<Item = &mut LeaseEntry> {
        self.leases.range_mut((ino.0, 0)..=(ino.0, u64::MAX)).map(|(_, entry)| entry)
    }
}

impl Sessions {
    pub fn note_still(&self, is_still: bool) {
        self.is_still.store(is_still, Ordering::SeqCst);
    }

    /// Returns the device number of the mount, if the file system is mounted.
    pub fn device(&self) -> Option<u64> {
        self.table.lock().copies.as_ref().and_then(|copies| copies.device())
    }

    /// Returns true if the file system is mounted.
    pub fn is_mounted(&self) -> bool {
        self.table.lock().copies.is_some()
    }

    /// The grants of clients that stand still: they look at the gate before they store.
    pub fn stilled(&self) -> Vec<GrantId> {
        if !self.is_still.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.table.lock().sessions.values().map(|session_entry| session_entry.grant).collect()
    }
}

pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ferrite_pool::Error::Busy(why.into()).into())
}

impl SharedFiles {
    /// See [`crate::FileSystem::answer`].
    pub fn answer(&self, boot_id: [u8; 16], caller: &Caller, request: &ClientRequest) -> Result<ServiceReply> {
        let plain = |value| ServiceReply { value, fds: Vec::new() };
        match *request {
            ClientRequest::DirectOpen { layout, ref held, .. } => {
                if let Some(held) = held {
                    self.release_other_sessions(held, &Process::of(caller, boot_id))?;
                }
                let open = || self.open_session(boot_id, caller, layout);
                match open() {
                    // The list of many extents needs pages of the pool.
                    Err(Error::NoSpace) if self.pool().take_spare(None) => open(),
                    opened => opened,
                }
            }
            ClientRequest::DirectLease { session, ino, access, ahead_bytes, seen_ends, .. } => {
                self.ensure_own_session(session, caller)?;
                let mut answer = self.grant_lease(session.0, Ino(ino), access, seen_ends)?;
                if let LeaseAnswer::Granted(leased) = &mut answer {
                    // If none can be reserved, the client asks again alone and receives the reason.
                    leased.has_ahead =
                        ahead_bytes > 0 && self.reserve_ahead_for(session.0, Ino(ino), ahead_bytes).is_ok();
                }
                Ok(plain(json!(answer)))
            }
            ClientRequest::DirectAhead { session, ino, bytes, .. } => {
                self.ensure_own_session(session, caller)?;
                self.reserve_ahead_for(session.0, Ino(ino), bytes)?;
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectRead { session, ino, at, bytes, .. } => {
                self.ensure_own_session(session, caller)?;
                let read = self.read_for(session.0, Ino(ino), at, bytes)?;
                Ok(plain(json!(read)))
            }
            ClientRequest::DirectOverwrite { session, ino, at, bytes, .. } => {
                self.ensure_own_session(session, caller)?;
                self.overwrite_for(session.0, Ino(ino), at, bytes)?;
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectResize { session, ino, size, .. } => {
                self.ensure_own_session(session, caller)?;
                self.resize(session.0, Ino(ino), size)?;
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectReturn { session, ino, .. } => {
                self.ensure_own_session(session, caller)?;
                self.end_lease(session.0, Ino(ino));
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectLetGo { session, .. } => {
                self.release_earlier_session(session, &Process::of(caller, boot_id))?;
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectFlush { device, .. } => {
                let ours = self.sessions.table.lock().copies.as_ref().and_then(|copies| copies.device());
                if device.zip(ours).is_some_and(|(asked, ours)| asked != ours) {
                    return Err(ferrite_pool::Error::Owner(Failure::refused("that mount is another server's")).into());
                }
                self.fold_all_times();
                fsync::flush(self)?;
                Ok(ServiceReply::default())
            }
            ClientRequest::DirectClose { session, .. } => {
                self.ensure_own_session(session, caller)?;
                self.end_sessions_of(caller.connection);
                Ok(ServiceReply::default())
            }
        }
    }

    /// See [`crate::FileSystem::set_copies`].
    pub fn set_copies(&self, copies: Arc<dyn CachedCopies>) {
        self.sessions.table.lock().copies = Some(copies);
    }

    /// See [`crate::FileSystem::forget_copies`].
    pub fn forget_copies(&self, ino: Ino) {
        let copies = self.sessions.table.lock().copies.as_ref().map(Arc::clone);
        if let Some(copies) = copies {
            // If no thread can be started, the copy stays until a request asks for the file's size.
            let _ = std::thread::Builder::new().spawn(move || copies.forget(ino));
        }
    }

    /// See [`crate::FileSystem::forget_attributes`].
    pub fn forget_attributes(&self, ino: Ino) {
        let copies = self.sessions.table.lock().copies.as_ref().map(Arc::clone);
        copies.into_iter().for_each(|copies| copies.forget_attributes(ino));
    }

    /// Drops the attributes of all files noted. The caller has no lock, because the kernel may wait for another
    /// request of the caller.
    pub(crate) fn forget_stale(&self) {
        let stale = std::mem::take(&mut *self.link.stale.lock());
        stale.into_iter().for_each(|ino| self.forget_attributes(ino));
    }

    fn open_session(&self, boot_id: [u8; 16], caller: &Caller, layout: u32) -> Result<ServiceReply> {
        ensure_alike(layout)?;
        if self.waits() {
            return refused(
                "the pool lies in a file on a disk, where a write is durable at fsync: reads and writes stay system calls; \
                 `ferrite run` speeds up a pool in /dev/shm or on DAX",
            );
        }
        let writable = self.data_mode() == DataMode::Sync && self.refuse_if_read_only().is_ok();
        let rights = if writable { GrantRights::ReadWrite } else { GrantRights::Read };
        let process = Process::of(caller, boot_id);
        // Granting takes a transaction, and the thread that suspends transactions locks the table
        // ([`Sessions::stilled`]).
        let _pass = self.gate.pass();
        let mut table = self.sessions.table.lock();
        if table.liveness.is_none() {
            table.liveness = Some(self.space.shared_state.announce_owner()?);
        }
        // Its pages cannot change during the grant: chunks are added and removed under this lock.
        let tag = self.tag.lock();
        let shared_state = self.space.shared_state.share()?;
        let (granted, memory) =
            self.pool().lend(&GrantRequest { tag: &tag, extents: &tag.extents, rights, process: &process })?;
        self.space.shared_state.add_session(self.state_owner(&tag), granted.id);
        let area = self.slots.as_ref().and_then(|_| self.sessions.areas.allocate());
        let transfer_area = area.as_ref().map(|area| area.index as u32);
        let (grant, connection) = (granted.id, caller.connection);
        let session_entry = OpenSession { grant, connection, writable, is_ending: false, area };
        table.sessions.insert(granted.id.0, session_entry);
        self.link.pins.enter(granted.id.0, &process);
        let device = table.copies.as_ref().and_then(|copies| copies.device());
        let opened = SessionGrant {
            session: granted.id,
            offset: memory.offset,
            writable,
            device,
            layout: LAYOUT,
            transfer_area,
        };
        Ok(ServiceReply { value: json!(opened), fds: vec![memory.fd, shared_state, granted.notice] })
    }

    fn ensure_own_session(&self, session: GrantId, caller: &Caller) -> Result<()> {
        let table = self.sessions.table.lock();
        let session_entry = table.sessions.get(&session.0).filter(|session_entry| !session_entry.is_ending);
        match session_entry {
            Some(session_entry) if session_entry.connection == caller.connection => Ok(()),
            _ => refused("this connection has no such session"),
        }
    }

    /// See [`crate::FileSystem::end_sessions_of`].
    pub fn end_sessions_of(&self, connection: u64) {
        let mut table = self.sessions.table.lock();
        for session_entry in table.sessions.values_mut().filter(|session_entry| session_entry.connection == connection)
        {
            session_entry.is_ending = true;
        }
        drop(table);
        self.end_sessions();
    }

    /// See [`crate::FileSystem::dismiss`].
    pub fn dismiss(&self) {
        let mut table = self.sessions.table.lock();
        (table.liveness, table.copies) = (None, None);
        table.sessions.values_mut().for_each(|session_entry| session_entry.is_ending = true);
        drop(table);
        self.end_sessions();
        ahead::free_all_ahead(self, || self.gate.try_pass());
    }

    /// Ends what sessions are to end, as far as their threads let them.
    pub(crate) fn end_sessions(&self) {
        let _one = self.sessions.ending.lock();
        let mut table = self.sessions.table.lock();
        for (session, session_entry) in &mut table.sessions {
            // A forked child may have the connection still.
            session_entry.is_ending |= self.link.pins.has_ended(*session);
        }
        let ending: Vec<(u64, GrantId)> = table
            .sessions
            .iter()
            .filter(|(_, session_entry)| session_entry.is_ending)
            .map(|(id, session_entry)| (*id, session_entry.grant))
            .collect();
        let leases: Vec<(u64, u64)> = table.leases.keys().copied().collect();
        drop(table);
        for (session, grant) in ending {
            leases.iter().filter(|(_, of)| *of == session).for_each(|(ino, _)| self.end_lease(session, Ino(*ino)));
            if self.link.pins.leave(session) {
                self.sessions.table.lock().sessions.remove(&session);
                // After a failure the grant ends with its process.
                let _ = self.pool().grants().release(self.pool(), grant);
            }
        }
        self.forget_stopped_appends();
    }
}
