//! Where the owner keeps who works beside it, and what it lets them do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferrite_medium::Beacon;
use ferrite_pool::grant::{Ask, GrantId, Process, Rights};
use ferrite_pool::owner::{Caller, Reply};
use parking_lot::Mutex;
use serde_json::json;

use super::board::{Board, LEASES};
use super::request::{Access, Leased, Opened, Request};
use super::state::State;
use crate::fs::FileSystem;
use crate::read::apply_waiting;
use crate::{DataMode, Error, Ino, Kind, Result, Time};

/// A session.
#[derive(Debug)]
struct Visit {
    grant: GrantId,
    /// The connection it came by.
    connection: u64,
    writable: bool,
    /// Its leases are gone; it ends when its threads have let go.
    is_ending: bool,
}

/// A lease that is out.
#[derive(Clone, Copy, Debug)]
struct Out {
    slot: usize,
}

#[derive(Debug, Default)]
struct Books {
    visits: BTreeMap<u64, Visit>,
    /// By inode and session.
    leases: BTreeMap<(u64, u64), Out>,
    free: Vec<usize>,
    /// Slots beyond this were never used.
    used: usize,
    serial: u64,
    beacon: Option<Beacon>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    books: Mutex<Books>,
    /// Leases that are out.
    leases: AtomicUsize,
}

/// Times of a file that clients noted on the board.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    written: u64,
    accessed: u64,
}

impl Books {
    fn take_slot(&mut self) -> Option<usize> {
        self.free.pop().or_else(|| {
            let fresh = self.used;
            (fresh < LEASES).then(|| self.used += 1)?;
            Some(fresh)
        })
    }

    fn of(&self, ino: Ino) -> impl Iterator<Item = &Out> {
        self.leases.range((ino.0, 0)..=(ino.0, u64::MAX)).map(|(_, out)| out)
    }
}

/// Takes what clients noted in `slot`.
fn noted(board: &Board, slot: usize) -> Noted {
    let take = |word: &std::sync::atomic::AtomicU64| match word.load(Ordering::Acquire) {
        0 => 0,
        _ => word.swap(0, Ordering::AcqRel),
    };
    Noted { written: take(board.written(slot)), accessed: take(board.accessed(slot)) }
}

fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ferrite_pool::Error::Busy(why.into()).into())
}

impl FileSystem {
    /// Does what a client asks; `boot_id` is this boot of the machine.
    ///
    /// # Errors
    /// Why not, in words for people.
    pub fn answer(&self, boot_id: [u8; 16], caller: &Caller, request: &Request) -> Result<Reply> {
        match *request {
            Request::DirectOpen { .. } => self.open_session(boot_id, caller),
            Request::DirectLease { session, ino, access, .. } => {
                self.ensure_theirs(session, caller)?;
                let leased = self.lease(session.0, Ino(ino), access)?;
                Ok(Reply { value: json!(leased), fds: Vec::new() })
            }
            Request::DirectReturn { session, ino, .. } => {
                self.ensure_theirs(session, caller)?;
                self.end_lease(session.0, Ino(ino));
                Ok(Reply::default())
            }
        }
    }

    fn open_session(&self, boot_id: [u8; 16], caller: &Caller) -> Result<Reply> {
        if self.waits() {
            return refused("files of a pool on a disk are not served directly: a write is durable at fsync there");
        }
        let writable = self.data_mode() == DataMode::Sync && self.refuse_if_read_only().is_ok();
        let rights = if writable { Rights::ReadWrite } else { Rights::Read };
        let process = Process::of(caller, boot_id);
        let mut books = self.desk.books.lock();
        if books.beacon.is_none() {
            books.beacon = Some(self.space.board.light()?);
        }
        // Its pages cannot change while it is asked for: chunks come and go under this lock.
        let tag = self.tag.lock();
        let granted =
            self.pool().grant(&Ask { tag: &tag, extents: &tag.extents, rights, process: &process, reserve: &[] })?;
        let (memory, board) = (granted.share(self.memory())?, self.space.board.share()?);
        let visit = Visit { grant: granted.id, connection: caller.connection, writable, is_ending: false };
        books.visits.insert(granted.id.0, visit);
        self.space.abroad.enter(granted.id.0, &process);
        let opened = Opened { session: granted.id, offset: memory.offset, writable };
        Ok(Reply { value: json!(opened), fds: vec![memory.fd, board, granted.notice] })
    }

    fn ensure_theirs(&self, session: GrantId, caller: &Caller) -> Result<()> {
        let books = self.desk.books.lock();
        let visit = books.visits.get(&session.0).filter(|visit| !visit.is_ending);
        match visit {
            Some(visit) if visit.connection == caller.connection => Ok(()),
            _ => refused("this connection has no such session"),
        }
    }

    /// Gives `session` a lease on `ino`.
    fn lease(&self, session: u64, ino: Ino, access: Access) -> Result<Leased> {
        if access > Access::Read {
            self.ensure_plain(ino)?;
        }
        self.load_regular(ino)?;
        self.hold(ino)?;
        let leased = self.enter_lease(session, ino, access);
        if leased.is_err() {
            self.release(ino, 1);
        }
        leased
    }

    fn enter_lease(&self, session: u64, ino: Ino, access: Access) -> Result<Leased> {
        let mut books = self.desk.books.lock();
        let books = &mut *books;
        let visit = books.visits.get(&session).filter(|visit| !visit.is_ending);
        let Some(visit) = visit else { return refused("the session has ended") };
        if access > Access::Read && !visit.writable {
            return Err(Error::ReadOnly);
        }
        if access == Access::Append {
            return refused("nobody appends directly");
        }
        if books.leases.contains_key(&(ino.0, session)) {
            return refused("the session has a lease on this file");
        }
        let Some(slot) = books.take_slot() else { return refused("too many files are leased") };
        books.serial += 1;
        let serial = books.serial;
        books.leases.insert((ino.0, session), Out { slot });
        self.desk.leases.fetch_add(1, Ordering::SeqCst);
        self.space.board.lease(slot).store(State::new(serial, access).0, Ordering::SeqCst);
        Ok(Leased { slot: slot as u32, serial, access })
    }

    /// Only a program that asks the kernel loses set-id bits by writing.
    fn ensure_plain(&self, ino: Ino) -> Result<()> {
        let attr = self.getattr(ino)?;
        let is_plain = attr.kind == Kind::File && attr.mode & 0o6000 == 0;
        if is_plain && matches!(self.xattr(ino, b"security.capability"), Err(Error::NoAttribute)) {
            return Ok(());
        }
        refused("a program with rights of its own is written through the mount")
    }

    /// Takes the lease of `session` on `ino` back.
    fn end_lease(&self, session: u64, ino: Ino) {
        let mut books = self.desk.books.lock();
        let Some(out) = books.leases.remove(&(ino.0, session)) else { return };
        let board = &self.space.board;
        board.lease(out.slot).store(State::VOID.0, Ordering::SeqCst);
        self.space.abroad.pass();
        let noted = noted(board, out.slot);
        books.free.push(out.slot);
        self.desk.leases.fetch_sub(1, Ordering::SeqCst);
        drop(books);
        self.take_times(ino, &[noted]);
        self.release(ino, 1);
    }

    /// Ends the sessions that came by `connection`, which has ended, as far as their threads let them.
    pub fn end_sessions_of(&self, connection: u64) {
        let mut books = self.desk.books.lock();
        for visit in books.visits.values_mut().filter(|visit| visit.connection == connection) {
            visit.is_ending = true;
        }
        drop(books);
        self.end_sessions();
    }

    /// Ends every session: clients are told that the owner is gone. Nobody else has the file system open any more.
    pub fn dismiss(&self) {
        let mut books = self.desk.books.lock();
        books.beacon = None;
        books.visits.values_mut().for_each(|visit| visit.is_ending = true);
        drop(books);
        self.end_sessions();
    }

    /// Ends what sessions are to end, as far as their threads let them; whether one of them has ended.
    pub(crate) fn end_sessions(&self) -> bool {
        let books = self.desk.books.lock();
        let ending: Vec<(u64, GrantId)> =
            books.visits.iter().filter(|(_, visit)| visit.is_ending).map(|(id, visit)| (*id, visit.grant)).collect();
        let leases: Vec<(u64, u64)> = books.leases.keys().copied().collect();
        drop(books);
        let mut has_ended = false;
        for (session, grant) in ending {
            leases.iter().filter(|(_, of)| *of == session).for_each(|(ino, _)| self.end_lease(session, Ino(*ino)));
            if self.space.abroad.leave(session) {
                self.desk.books.lock().visits.remove(&session);
                // Where it fails the grant ends with its process.
                let _ = self.pool().grants().release(self.pool(), grant);
                has_ended = true;
            }
        }
        has_ended
    }

    /// Whether anybody has a lease.
    #[inline]
    pub(crate) fn is_leased(&self) -> bool {
        self.desk.leases.load(Ordering::Acquire) > 0
    }

    /// Lets the inode say when clients wrote to it and read from it.
    pub(crate) fn fold_times(&self, ino: Ino) {
        if !self.is_leased() {
            return;
        }
        let books = self.desk.books.lock();
        let found: Vec<Noted> = books.of(ino).map(|out| noted(&self.space.board, out.slot)).collect();
        drop(books);
        self.take_times(ino, &found);
    }

    /// The same for all files.
    pub(crate) fn fold_all_times(&self) {
        if !self.is_leased() {
            return;
        }
        let inos: Vec<u64> = self.desk.books.lock().leases.keys().map(|(ino, _)| *ino).collect();
        inos.into_iter().for_each(|ino| self.fold_times(Ino(ino)));
    }

    fn take_times(&self, ino: Ino, noted: &[Noted]) {
        let latest = |of: fn(&Noted) -> u64| noted.iter().map(of).max().unwrap_or(0) as i64;
        let (written, accessed) = (latest(|noted| noted.written), latest(|noted| noted.accessed));
        if (written, accessed) == (0, 0) || self.refuse_if_read_only().is_err() {
            return;
        }
        let Some(_pass) = self.gate.try_pass() else { return };
        let stripe = self.locks.write(ino);
        let Ok(mut inode) = self.load_regular(ino) else { return };
        apply_waiting(&stripe, &mut inode);
        if written > inode.head.mtime {
            inode.touch(Time(written).0);
        }
        if accessed > 0 && inode.head.atime <= inode.head.mtime {
            inode.head.atime = accessed.max(inode.head.mtime.saturating_add(1));
        }
        inode.store_direct(self.memory());
        self.memory().fence();
    }
}
