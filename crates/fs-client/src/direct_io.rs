//! Direct reads, overwrites and appends of a client, over the shared state and the pool's memory.

mod direct_append;
mod direct_attr;

use std::sync::atomic::Ordering;

use ferrite_memory::{Foreign, Memory, Scheme, order_loads, planted};
use ferrite_pool::layout::CHUNK;

use super::known_end::KnownEnd;
use ferrite_fs::format::attr::Ino;
use ferrite_fs::format::inode::TIME_GRAIN_NS;
use ferrite_fs::share::layout::brief_wait::wait_briefly;
use ferrite_fs::share::layout::lease_state::{LeaseMode, LeaseState};
use ferrite_fs::share::layout::request::LeaseAccess;
use ferrite_fs::share::layout::shared_state::SharedState;
use ferrite_fs::view::index_reader::FoundBytes;
use ferrite_fs::view::inode_snapshot::{InodeReader, InodeSnapshot};
use ferrite_fs::view::superpage_cache::{self, LeaseBlock};
use ferrite_fs::view::version::LockVersion;

/// A lease at work.
pub(crate) struct DirectIo<'a, M: ?Sized> {
    pub memory: &'a M,
    pub shared_state: &'a SharedState,
    pub foreign: Foreign,
    pub ino: Ino,
    pub slot: usize,
    pub serial: u64,
    /// The number of the lease; no other lease of this process has it.
    pub number: u64,
    pub end: &'a KnownEnd,
}

/// The outcome of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectOutcome<T> {
    Done(T),
    /// The operation must go through the mount.
    Refused,
    /// Another thread or process changed the file during the try.
    Overtaken,
    /// There are no pages for so many bytes.
    NoPages,
}

impl<M: Memory + ?Sized> DirectIo<'_, M> {
    #[inline(always)]
    fn state(&self) -> LeaseState {
        self.shared_state.state(self.slot)
    }

    #[inline(always)]
    fn mode(&self) -> LeaseMode {
        self.state().mode(self.serial)
    }

    /// Returns true if the owner lives and lets us read.
    #[inline(always)]
    pub fn lets_read(&self) -> bool {
        self.shared_state.allows(self.slot, self.serial, LeaseMode::Read)
    }

    /// Returns true if the owner lives and lets us do `access`, or will in a moment.
    pub fn allows(&self, access: LeaseAccess) -> bool {
        self.shared_state.allows(self.slot, self.serial, LeaseMode::of(access))
    }

    /// Returns true if it lets us store.
    #[inline(always)]
    fn lets_write(&self) -> bool {
        self.shared_state.allows(self.slot, self.serial, LeaseMode::Write)
            && self.shared_state.gate().load(Ordering::Acquire) == 0
    }

    #[inline(always)]
    fn reader(&self, version: LockVersion) -> InodeReader<'_, M, SharedState> {
        InodeReader { memory: self.memory, shared_state: self.shared_state, ino: self.ino, version }
    }

    /// Returns the file between two changes, with the 2 MiB around byte `at`.
    #[inline(always)]
    fn even_snapshot(&self, at: u64) -> Option<(LockVersion, InodeSnapshot)> {
        let version = || self.shared_state.even_version(self.ino);
        let version = version().or_else(|| wait_briefly(|| version().is_some()).then(version)?)?;
        Some((version, self.reader(version).look(at)?))
    }

    /// Waits, without a pin, until no thread changes or copies the file. Returns false if that takes too long.
    #[inline]
    fn may_write_soon(&self) -> bool {
        let may_write = || self.shared_state.version_to_write(self.ino).is_some();
        may_write() || wait_briefly(may_write)
    }

    /// Returns true if what was loaded since `version` counts (FG1, FG4).
    #[inline(always)]
    fn is_still(&self, version: LockVersion) -> bool {
        order_loads();
        self.shared_state.is_still(self.ino, version)
    }

    /// Bytes that the file has.
    pub fn size(&self) -> DirectOutcome<u64> {
        let Some((version, file)) = self.even_snapshot(0).filter(|_| self.lets_read()) else {
            return DirectOutcome::Refused;
        };
        if self.is_still(version) && self.lets_read() {
            DirectOutcome::Done(file.size)
        } else {
            DirectOutcome::Overtaken
        }
    }

    /// Returns this thread's cached snapshot, and where `len` adjacent bytes from byte `at` on lie. Returns `None` in
    /// all other cases. The place is within the pool.
    #[inline(always)]
    fn recall(&self, version: LockVersion, at: u64, len: usize) -> Option<(InodeSnapshot, u64)> {
        let seen = self.reader(version).recall(at)?;
        let place = self.place_of(version, &seen, at, len)?;
        Some((seen, place))
    }

    #[inline(always)]
    fn place_of(&self, version: LockVersion, seen: &InodeSnapshot, at: u64, len: usize) -> Option<u64> {
        let place = self.reader(version).place_of(seen, at, len)?;
        if place.checked_add(len as u64)? <= self.memory.size() { Some(place) } else { None }
    }

    /// Caches the place of the bytes around byte `at`, which were just read.
    #[inline(never)]
    pub fn remember(&self, at: u64) {
        let Some((version, file)) = self.even_snapshot(at) else { return };
        let is_noted = !file.is_unread() || self.is_access_noted();
        let found = file.superpage(version, at).filter(|found| is_noted && found.place + CHUNK <= self.memory.size());
        if let Some(found) = found {
            superpage_cache::keep(LeaseBlock::of(self.number, at), &found);
        }
    }

    /// Returns true if it is noted for the owner that the file was read since it was changed.
    #[inline(always)]
    fn is_access_noted(&self) -> bool {
        self.shared_state.accessed(self.slot).load(Ordering::Relaxed) != 0
    }

    /// Reads from byte `at` on. Returns how many bytes, and whether the inode must note the access.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> DirectOutcome<(usize, bool)> {
        let is_place = at.checked_add(into.len() as u64).is_some_and(|end| end <= i64::MAX as u64);
        if !is_place || !self.lets_read() {
            return DirectOutcome::Refused;
        }
        let Some((version, file)) = self.even_snapshot(at) else { return DirectOutcome::Refused };
        let len = file.size.saturating_sub(at).min(into.len() as u64) as usize;
        let copied = self.copy_out(version, &file, at, &mut into[..len]);
        if !self.is_still(version) || !self.lets_read() {
            return DirectOutcome::Overtaken;
        }
        match copied {
            Some(()) => DirectOutcome::Done((len, len > 0 && file.is_unread())),
            None => DirectOutcome::Refused,
        }
    }

    #[inline]
    fn copy_out(&self, version: LockVersion, file: &InodeSnapshot, at: u64, into: &mut [u8]) -> Option<()> {
        let (mut file, mut done) = (*file, 0);
        while done < into.len() {
            let found = self.find(version, &mut file, at + done as u64)?;
            let (FoundBytes::At(_, together) | FoundBytes::Hole(together)) = found;
            let len = together.min((into.len() - done) as u64) as usize;
            let part = &mut into[done..done + len];
            match found {
                FoundBytes::At(place, _) => {
                    self.memory.load(place, part);
                    self.shared_state.note_touched(place, len);
                }
                FoundBytes::Hole(_) => part.fill(0),
            }
            done += len;
        }
        Some(())
    }

    /// Returns where the bytes from byte `at` on lie, and how many are adjacent, within the pool. They are in the 2
    /// MiB of the snapshot, or are the first bytes of the next 2 MiB, which replace it.
    #[inline(always)]
    fn find(&self, version: LockVersion, seen: &mut InodeSnapshot, at: u64) -> Option<FoundBytes> {
        let reader = self.reader(version);
        if at.is_multiple_of(CHUNK) {
            *seen = reader.look(at)?;
        }
        let found = reader.find(seen, at)?;
        let fits = |place: u64, len| place.checked_add(len).is_some_and(|end| end <= self.memory.size());
        match found {
            FoundBytes::At(place, together) => fits(place, together).then_some(found),
            FoundBytes::Hole(_) => Some(found),
        }
    }

    /// Overwrites in the usual case, with few instructions. Returns `None` in all other cases (FG1, FG2).
    #[inline(always)]
    pub fn write_together(&self, thread_slot: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> Option<()> {
        let _pin = self.foreign.pin(self.shared_state.pin(thread_slot))?;
        let version = self.shared_state.version_to_write(self.ino)?;
        let (file, place) = self.recall(version, at, from.len())?;
        file.expect_store(self.memory, at, place);
        if at + from.len() as u64 > file.overwritable_bytes() || !self.lets_write() || !self.is_still(version) {
            return None;
        }
        planted!("fs: before store" => ());
        self.memory.store(place, from, Scheme::Nt);
        self.shared_state.note_stored(place, from.len());
        if self.finish_write(version, file.mtime, now) { Some(()) } else { None }
    }

    /// Makes the stored bytes durable in a file whose inode has the time of change `mtime`. Returns true if they are
    /// in the file, because no other thread changed or removed anything there (FG1). All checks run while the bytes
    /// are on their way, which the fence waits for; the pin outlasts the fence.
    #[inline(always)]
    fn finish_write(&self, version: LockVersion, mtime: i64, now: impl Fn() -> i64) -> bool {
        self.foreign.order();
        let counts =
            self.is_still(version) && self.shared_state.version_to_write(self.ino).is_some() && self.lets_write();
        if counts {
            self.note_write(mtime, now());
        }
        planted!("fs: return before fence" => return counts);
        self.memory.fence();
        counts
    }

    /// Notes a write to the file, whose inode has the time of change `mtime`.
    #[inline(always)]
    fn note_write(&self, mtime: i64, now: i64) {
        let noted = self.shared_state.written(self.slot);
        let is_to_note = |known: i64| now.abs_diff(known) >= TIME_GRAIN_NS;
        if is_to_note(mtime) && is_to_note(noted.load(Ordering::Relaxed) as i64) {
            noted.store(now as u64, Ordering::Relaxed);
        }
    }

    /// Writes over existing bytes, except those that the size rests on: only the holder of the end may store there
    /// (FG1, FG2, FP3).
    #[inline]
    pub fn write(&self, thread_slot: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> DirectOutcome<()> {
        if !self.may_write_soon() {
            return DirectOutcome::Refused;
        }
        let Some(_pin) = self.foreign.pin(self.shared_state.pin(thread_slot)) else { return DirectOutcome::Refused };
        if !self.lets_write() {
            return DirectOutcome::Refused;
        }
        let Some(version) = self.shared_state.version_to_write(self.ino) else { return DirectOutcome::Overtaken };
        let file = self.reader(version).look(at);
        let is_within = |file: &InodeSnapshot| {
            at.checked_add(from.len() as u64).is_some_and(|end| end <= file.overwritable_bytes())
        };
        let Some(file) = file.filter(is_within) else {
            return if self.is_still(version) { DirectOutcome::Refused } else { DirectOutcome::Overtaken };
        };
        let stored = self.copy_in(version, &file, at, from);
        if stored != DirectOutcome::Done(()) {
            return if stored == DirectOutcome::Overtaken { DirectOutcome::Overtaken } else { DirectOutcome::Refused };
        }
        if self.finish_write(version, file.mtime, now) { DirectOutcome::Done(()) } else { DirectOutcome::Overtaken }
    }

    /// Stores where pages are, while nothing changes. If that ends early, the caller reports nothing of it as written,
    /// and no store happens after the pin ends (FG2).
    #[inline]
    fn copy_in(&self, version: LockVersion, file: &InodeSnapshot, at: u64, from: &[u8]) -> DirectOutcome<()> {
        let stored = self.copy_pages(version, file, at, from);
        if stored != DirectOutcome::Done(()) {
            self.memory.fence();
        }
        stored
    }

    #[inline]
    fn copy_pages(&self, version: LockVersion, file: &InodeSnapshot, at: u64, from: &[u8]) -> DirectOutcome<()> {
        let (mut file, mut done) = (*file, 0);
        while done < from.len() {
            let found = self.find(version, &mut file, at + done as u64);
            // The place may be stored to only if nothing changed during the lookup.
            if !self.is_still(version) {
                return DirectOutcome::Overtaken;
            }
            let Some(FoundBytes::At(place, together)) = found else { return DirectOutcome::NoPages };
            let len = together.min((from.len() - done) as u64) as usize;
            planted!("fs: before store" => ());
            self.memory.store(place, &from[done..done + len], Scheme::Nt);
            self.shared_state.note_stored(place, len);
            done += len;
        }
        DirectOutcome::Done(())
    }
}
