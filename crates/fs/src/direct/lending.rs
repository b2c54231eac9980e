//! What the owner lets clients do with which file, and how it ends that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::desk::{Books, Out, refused};
use super::request::{Access, Leased};
use super::state::State;
use crate::fs::FileSystem;
use crate::{Error, Ino, Kind, Result};

impl FileSystem {
    /// Gives `session` a lease on `ino`.
    pub(super) fn lend(&self, session: u64, ino: Ino, access: Access) -> Result<Leased> {
        if access > Access::Read {
            self.ensure_plain(ino)?;
        }
        self.load_regular(ino)?;
        self.hold(ino)?;
        let entered = self.enter_lease(session, ino, access);
        if entered.is_err() {
            self.release(ino, 1);
        }
        let out = entered?;
        self.begin(session, ino, out).inspect_err(|_| self.take_back(session, ino))
    }

    /// Writes a lease into the books; nobody can use it yet.
    fn enter_lease(&self, session: u64, ino: Ino, access: Access) -> Result<Out> {
        let mut books = self.desk.books.lock();
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
        let Some((slot, serial)) = books.take_slot() else { return refused("too many files are leased") };
        let out = Out { slot, serial, access };
        books.leases.insert((ino.0, session), out);
        self.desk.leases.fetch_add(1, Ordering::SeqCst);
        self.desk.writers.fetch_add(usize::from(access > Access::Read), Ordering::SeqCst);
        Ok(out)
    }

    /// Lets a lease that is in the books be used: when no copy of the file is left that its holder could make stale (FG6).
    fn begin(&self, session: u64, ino: Ino, out: Out) -> Result<Leased> {
        let copies = self.desk.books.lock().copies.as_ref().map(Arc::clone);
        if let Some(copies) = copies.filter(|_| out.access > Access::Read)
            && let Err(why) = copies.forget(ino)
        {
            return refused(format!("the kernel keeps its copy of the file: {why}"));
        }
        let books = self.desk.books.lock();
        match books.leases.get(&(ino.0, session)) {
            Some(now) if (now.serial, now.access) == (out.serial, out.access) => {
                self.space.board.lease(out.slot).store(State::new(out.serial, out.access).0, Ordering::SeqCst);
                Ok(Leased { slot: out.slot as u32, serial: out.serial, access: out.access })
            }
            _ => refused("the file is in use through the mount"),
        }
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

    /// Whether clients may store to `ino`: what is told of it now may be wrong in a moment.
    pub fn is_written_directly(&self, ino: Ino) -> bool {
        self.desk.has_writers() && self.desk.books.lock().of(ino).any(|out| out.access > Access::Read)
    }

    /// Lets clients only read `ino` from now on: somebody is about to make a copy of it, or to change it (FG6).
    pub fn end_writing(&self, ino: Ino) {
        if !self.desk.has_writers() {
            return;
        }
        let mut books = self.desk.books.lock();
        let mut ended = 0;
        for out in books.of(ino).filter(|out| out.access > Access::Read) {
            out.access = Access::Read;
            self.let_read(out);
            ended += 1;
        }
        drop(books);
        if ended > 0 {
            self.desk.writers.fetch_sub(ended, Ordering::SeqCst);
            self.space.abroad.pass();
            self.fold_times(ino);
        }
    }

    /// One that has not begun does not begin.
    fn let_read(&self, out: &Out) {
        let word = self.space.board.lease(out.slot);
        if State(word.load(Ordering::SeqCst)).lets_read(out.serial) {
            word.store(State::new(out.serial, Access::Read).0, Ordering::SeqCst);
        }
    }

    /// Takes the lease of `session` on `ino` back.
    pub(super) fn take_back(&self, session: u64, ino: Ino) {
        let mut books = self.desk.books.lock();
        let Some(out) = books.leases.remove(&(ino.0, session)) else { return };
        let noted = self.end_out(&mut books, out);
        drop(books);
        self.take_times(ino, &[noted]);
        self.release(ino, 1);
    }

    fn end_out(&self, books: &mut Books, out: Out) -> super::times::Noted {
        let board = &self.space.board;
        board.lease(out.slot).store(State::VOID.0, Ordering::SeqCst);
        self.space.abroad.pass();
        let noted = super::times::noted(board, out.slot);
        books.give_back_slot(out.slot);
        self.desk.leases.fetch_sub(1, Ordering::SeqCst);
        self.desk.writers.fetch_sub(usize::from(out.access > Access::Read), Ordering::SeqCst);
        noted
    }
}
