//! A lease, as a program has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Mapped, Memory, order_loads};

use super::direct_io::{DirectIo, DirectOutcome};
use super::known_end::KnownEnd;
use super::session::FsSession;
use super::thread_slot;
use ferrite_fs::format::attr::{Attr, Ino};
use ferrite_fs::share::layout::lease_state::LeaseMode;
use ferrite_fs::share::layout::request::{GrantedLease, LeaseAccess};
use ferrite_fs::share::layout::shared_state::{DirectRequest, LEASES, TRANSFER_BYTES};
use ferrite_fs::view::hints;
use ferrite_fs::view::superpage_cache::{self, LeaseBlock};

/// How often an operation is retried if a change of another thread comes between.
const TRIES: u32 = 16;
/// Bytes of pages that are asked for ahead of appends, behind the first.
const AHEAD_BYTES: u64 = 16 << 20;

/// Leases that this process has had, and one more.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The right to work on one file directly. An operation returns `None` if it must go through the mount, now or always.
/// Returned to the owner when dropped.
#[derive(Debug)]
pub struct FileLease {
    session: Arc<FsSession>,
    ino: Ino,
    slot: usize,
    serial: u64,
    number: u64,
    /// Bytes to reserve with the next request for pages.
    ahead_bytes: AtomicU64,
    end: KnownEnd,
}

impl FileLease {
    /// Bytes of pages that are asked for ahead of the first appends.
    pub const FIRST_AHEAD_BYTES: u64 = 1 << 20;

    pub(crate) fn new(session: Arc<FsSession>, ino: Ino, leased: GrantedLease) -> Option<Self> {
        let (slot, serial) = (leased.slot as usize, leased.serial);
        let ahead_bytes = AtomicU64::new(if leased.has_ahead { AHEAD_BYTES } else { Self::FIRST_AHEAD_BYTES });
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        (slot < LEASES).then_some(Self { session, ino, slot, serial, number, ahead_bytes, end: KnownEnd::new() })
    }

    #[inline]
    fn io(&self) -> Option<DirectIo<'_, Mapped>> {
        let session = &*self.session;
        (!session.is_void()).then(|| DirectIo {
            memory: &session.memory,
            shared_state: session.shared_state(),
            foreign: session.foreign,
            ino: self.ino,
            slot: self.slot,
            serial: self.serial,
            number: self.number,
            end: &self.end,
        })
    }

    /// Returns true if `access` is what it is still for.
    pub fn allows(&self, access: LeaseAccess) -> bool {
        self.io().is_some_and(|io| io.allows(access))
    }

    /// Reads from byte `at` on; how many bytes: fewer than asked for at the end only, none at the end.
    #[inline(always)]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let read = match self.read_together(at, into) {
            Some(()) => into.len(),
            None => self.read_slowly(at, into)?,
        };
        self.count_read(read);
        Some(read)
    }

    /// Counts a read of `bytes` bytes by this thread.
    #[inline(always)]
    fn count_read(&self, bytes: usize) {
        if let Some(thread_slot) = thread_slot::claimed_for_reads(&self.session) {
            self.session.shared_state().count(thread_slot, DirectRequest::Read, bytes);
        }
    }

    /// Reads all of `into` in the usual case, with few instructions. Returns `None` in all other cases. Copies from
    /// the cached place, and checks everything else afterwards, which decides if the copy counts (FG1, FG4, FH1).
    #[inline(always)]
    fn read_together(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let session = &*self.session;
        if session.is_void() {
            return None;
        }
        let (shared_state, memory) = (session.shared_state(), &session.memory);
        let seen = superpage_cache::find(LeaseBlock::of(self.number, at))?;
        let place = seen.place_of(at, into.len())?;
        // A signal handler may have replaced the entry with one of a larger pool.
        if place.checked_add(into.len() as u64)? > memory.size() {
            return None;
        }
        memory.load(place, into);
        shared_state.note_touched(place, into.len());
        order_loads();
        let (version, (size_at, size)) = (seen.version(), seen.size());
        let is_same = seen.is_one()
            && hints::counts(version, shared_state.version_of(self.ino))
            && memory.load_word(size_at) == size;
        if is_same && shared_state.allows(self.slot, self.serial, LeaseMode::Read) { Some(()) } else { None }
    }

    #[inline(never)]
    fn read_slowly(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let io = self.io()?;
        let Some((len, is_to_note)) = again(|| io.read(at, into)) else {
            return self.read_by_owner(&io, at, into);
        };
        if is_to_note {
            self.note_access();
        }
        io.remember(at);
        Some(len)
    }

    /// Reads by the owner, in parts, because some of the pages are on SSDs. Parts in the pool are read directly.
    #[cold]
    fn read_by_owner(&self, io: &DirectIo<'_, Mapped>, at: u64, into: &mut [u8]) -> Option<usize> {
        again(|| io.size()).filter(|size| at < *size)?;
        let mut done = 0;
        for part in into.chunks_mut(TRANSFER_BYTES) {
            let at = at + done as u64;
            // The first part may be the whole read, which was tried.
            let is_tried = done == 0;
            let read = match (!is_tried).then(|| again(|| io.read(at, part))).flatten() {
                Some((len, _)) => len,
                None => self.session.read_by_owner(self.ino, at, part)?,
            };
            done += read;
            if read < part.len() {
                break;
            }
        }
        io.lets_read().then_some(done)
    }

    #[cold]
    fn note_access(&self) {
        let word = self.session.shared_state().accessed(self.slot);
        if self.session.writable && word.load(Ordering::Relaxed) == 0 {
            word.store((self.session.clock)().0 as u64, Ordering::Relaxed);
        }
    }

    /// Writes from byte `at` on, over what is there or, with an exclusive lease, behind the end too; how many bytes:
    /// all of them, durable on return.
    #[inline(always)]
    pub fn write(&self, at: u64, from: &[u8]) -> Option<usize> {
        if let Some(place) = hints::guess(self.ino, at) {
            self.session.memory.expect_store(place);
        }
        let thread_slot = thread_slot::claimed(&self.session)?;
        if self.end.may_be_at(at) && self.io()?.append_together(thread_slot, at, from, || self.now()).is_some() {
            self.session.shared_state().count(thread_slot, DirectRequest::Write, from.len());
            return Some(from.len());
        }
        if self.io()?.write_together(thread_slot, at, from, || self.now()).is_none() {
            self.write_slowly(thread_slot, at, from)?;
        }
        self.session.shared_state().count(thread_slot, DirectRequest::Write, from.len());
        Some(from.len())
    }

    #[inline(never)]
    fn write_slowly(&self, thread_slot: usize, at: u64, from: &[u8]) -> Option<()> {
        let io = self.io()?;
        if self.end.may_be_at(at) && self.extend(&io, thread_slot, Some(at), from).is_some() {
            return Some(());
        }
        let written = again(|| io.write(thread_slot, at, from, || self.now()))
            .or_else(|| self.overwrite_by_owner(&io, thread_slot, at, from));
        written.or_else(|| self.extend(&io, thread_slot, Some(at), from).map(drop))
    }

    /// Has the owner write over bytes before the end, in parts, because some of the pages are on SSDs (FG13). Parts in
    /// the pool are written directly.
    #[cold]
    fn overwrite_by_owner(&self, io: &DirectIo<'_, Mapped>, thread_slot: usize, at: u64, from: &[u8]) -> Option<()> {
        let end = at.checked_add(from.len() as u64)?;
        again(|| io.size()).filter(|size| end <= *size)?;
        let mut done = 0;
        while done < from.len() {
            let at = at + done as u64;
            // A part ends where an area does: pages are cut at the ends of the write only.
            let len = TRANSFER_BYTES - at as usize % TRANSFER_BYTES;
            let part = &from[done..from.len().min(done + len)];
            again(|| io.write(thread_slot, at, part, || self.now()))
                .or_else(|| self.session.overwrite_by_owner(self.ino, at, part))?;
            done += part.len();
        }
        Some(())
    }

    #[inline]
    fn now(&self) -> i64 {
        (self.session.clock)().0
    }

    /// Writes behind the last byte. Returns the offset, and the number of bytes, which is all of them. Durable on
    /// return.
    #[inline]
    pub fn append(&self, from: &[u8]) -> Option<(u64, usize)> {
        let (io, thread_slot) = (self.io()?, thread_slot::claimed(&self.session)?);
        let at = self.extend(&io, thread_slot, None, from)?;
        self.session.shared_state().count(thread_slot, DirectRequest::Write, from.len());
        Some((at, from.len()))
    }

    #[inline]
    fn extend(&self, io: &DirectIo<'_, Mapped>, thread_slot: usize, at: Option<u64>, from: &[u8]) -> Option<u64> {
        if from.is_empty() {
            return None;
        }
        let mut asked = false;
        for _ in 0..TRIES {
            match io.append(thread_slot, at, from, || self.now()) {
                DirectOutcome::Done(at) => return Some(at),
                DirectOutcome::NoPages if !asked => {
                    self.ask_for_pages(from.len() as u64)?;
                    asked = true;
                }
                DirectOutcome::Overtaken => {}
                DirectOutcome::Refused | DirectOutcome::NoPages => return None,
            }
        }
        None
    }

    #[cold]
    fn ask_for_pages(&self, len: u64) -> Option<()> {
        let bytes = self.ahead_bytes.load(Ordering::Relaxed);
        self.session.ask_ahead(self.ino, bytes.max(len.saturating_mul(2)))?;
        self.ahead_bytes.store(AHEAD_BYTES, Ordering::Relaxed);
        Some(())
    }

    /// Bytes that the file has.
    pub fn size(&self) -> Option<u64> {
        let io = self.io()?;
        again(|| io.size())
    }

    /// Returns the attributes of the file, if this lease is the only one on it.
    pub fn attr(&self) -> Option<Attr> {
        let (io, now) = (self.io()?, self.now());
        again(|| io.attr(now))
    }

    /// Cuts the file, which the lease may write to, or grows it by a hole. Takes one call to the owner; the lease
    /// stays.
    pub fn resize(&self, size: u64) -> Option<()> {
        self.session.resize(self.ino, size)
    }

    /// Every byte was durable when its write returned, and every size.
    #[inline]
    pub fn sync_data(&self) -> Option<()> {
        self.io()?.lets_read().then_some(())
    }

    /// Like [`FileLease::sync_data`], and the inode has the time of the last write. Returns `None` if it has not yet:
    /// then ask the owner.
    pub fn sync(&self) -> Option<()> {
        let is_noted = self.session.shared_state().written(self.slot).load(Ordering::Relaxed) == 0;
        self.sync_data().filter(|()| is_noted)
    }
}

#[inline]
fn again<T>(mut tried: impl FnMut() -> DirectOutcome<T>) -> Option<T> {
    for _ in 0..TRIES {
        match tried() {
            DirectOutcome::Done(done) => return Some(done),
            DirectOutcome::Overtaken => {}
            DirectOutcome::Refused | DirectOutcome::NoPages => return None,
        }
    }
    None
}

impl Drop for FileLease {
    fn drop(&mut self) {
        self.session.return_lease(self.ino);
    }
}
