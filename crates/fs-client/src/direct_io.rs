//! What a client does with its own hands: reads, overwrites and appends, over the board and the pool's memory.

mod direct_append;
mod direct_attr;

use std::sync::atomic::Ordering;

use ferrite_memory::{Foreign, Memory, Scheme, order_loads};
use ferrite_pool::layout::CHUNK;

use super::known_end::KnownEnd;
use ferrite_fs::format::attr::Ino;
use ferrite_fs::format::inode::TIME_GRAIN_NS;
use ferrite_fs::share::layout::brief_wait::wait_a_little;
use ferrite_fs::share::layout::lease_state::{Mode, State};
use ferrite_fs::share::layout::request::Access;
use ferrite_fs::share::layout::shared_state::Board;
use ferrite_fs::view::index_reader::Found;
use ferrite_fs::view::inode_snapshot::{Sight, Viewer};
use ferrite_fs::view::superpage_cache::{self, Piece};
use ferrite_fs::view::version::Version;

/// A lease at work.
pub(crate) struct Hands<'a, M: ?Sized> {
    pub memory: &'a M,
    pub board: &'a Board,
    pub foreign: Foreign,
    pub ino: Ino,
    pub slot: usize,
    pub serial: u64,
    /// Of the lease; no other one of this process has it.
    pub number: u64,
    pub end: &'a KnownEnd,
}

/// What came of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried<T> {
    Done(T),
    /// It is not for us.
    Refused,
    /// Somebody changed something meanwhile.
    Overtaken,
    /// There are no pages for so many bytes.
    NoPages,
}

impl<M: Memory + ?Sized> Hands<'_, M> {
    #[inline(always)]
    fn state(&self) -> State {
        self.board.state(self.slot)
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        self.state().mode(self.serial)
    }

    /// Whether the owner lives and lets us read.
    #[inline(always)]
    pub fn lets_read(&self) -> bool {
        self.board.lets(self.slot, self.serial, Mode::Read)
    }

    /// Whether the owner lives and lets us do `access`, or will in a moment.
    pub fn allows(&self, access: Access) -> bool {
        self.board.lets(self.slot, self.serial, Mode::of(access))
    }

    /// Whether it lets us store.
    #[inline(always)]
    fn lets_write(&self) -> bool {
        self.board.lets(self.slot, self.serial, Mode::Write) && self.board.gate().load(Ordering::Acquire) == 0
    }

    #[inline(always)]
    fn viewer(&self, version: Version) -> Viewer<'_, M, Board> {
        Viewer { memory: self.memory, board: self.board, ino: self.ino, version }
    }

    /// The file as it is between two changes, and the 2 MiB around byte `at`.
    #[inline(always)]
    fn glance_between(&self, at: u64) -> Option<(Version, Sight)> {
        let version = || self.board.even_version(self.ino);
        let version = version().or_else(|| wait_a_little(|| version().is_some()).then(version)?)?;
        Some((version, self.viewer(version).look(at)?))
    }

    /// Waits, not pinned, until nobody changes or copies the file; whether that came soon.
    #[inline]
    fn may_write_soon(&self) -> bool {
        let may_write = || self.board.version_to_write(self.ino).is_some();
        may_write() || wait_a_little(may_write)
    }

    /// Whether what was loaded since `version` counts (FG1, FG4).
    #[inline(always)]
    fn is_still(&self, version: Version) -> bool {
        order_loads();
        self.board.is_still(self.ino, version)
    }

    /// Bytes that the file has.
    pub fn size(&self) -> Tried<u64> {
        let Some((version, file)) = self.glance_between(0).filter(|_| self.lets_read()) else { return Tried::Refused };
        if self.is_still(version) && self.lets_read() { Tried::Done(file.size) } else { Tried::Overtaken }
    }

    /// Where `len` bytes from byte `at` on lie together, by what this thread saw of the file before, and that; nothing is
    /// said of other cases. Within the pool, whatever was found.
    #[inline(always)]
    fn recall(&self, version: Version, at: u64, len: usize) -> Option<(Sight, u64)> {
        let seen = self.viewer(version).recall(at)?;
        let place = self.place_of(version, &seen, (at, len))?;
        Some((seen, place))
    }

    #[inline(always)]
    fn place_of(&self, version: Version, seen: &Sight, (at, len): (u64, usize)) -> Option<u64> {
        let place = self.viewer(version).place_of(seen, at, len)?;
        if place.checked_add(len as u64)? <= self.memory.size() { Some(place) } else { None }
    }

    /// Keeps where the bytes around byte `at` lie, which were just read.
    #[inline(never)]
    pub fn remember(&self, at: u64) {
        let Some((version, file)) = self.glance_between(at) else { return };
        let is_noted = !file.is_unread() || self.is_access_noted();
        let found = file.stretch(version, at).filter(|found| is_noted && found.place + CHUNK <= self.memory.size());
        if let Some(found) = found {
            superpage_cache::keep(Piece::of(self.number, at), &found);
        }
    }

    /// Whether the owner will be told that the file was read since it was changed.
    #[inline(always)]
    fn is_access_noted(&self) -> bool {
        self.board.accessed(self.slot).load(Ordering::Relaxed) != 0
    }

    /// Reads from byte `at` on; how many bytes, and whether the inode is to say that it was read.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Tried<(usize, bool)> {
        let is_place = at.checked_add(into.len() as u64).is_some_and(|end| end <= i64::MAX as u64);
        if !is_place || !self.lets_read() {
            return Tried::Refused;
        }
        let Some((version, file)) = self.glance_between(at) else { return Tried::Refused };
        let len = file.size.saturating_sub(at).min(into.len() as u64) as usize;
        let copied = self.copy_out(version, &file, at, &mut into[..len]);
        if !self.is_still(version) || !self.lets_read() {
            return Tried::Overtaken;
        }
        match copied {
            Some(()) => Tried::Done((len, len > 0 && file.is_unread())),
            None => Tried::Refused,
        }
    }

    #[inline]
    fn copy_out(&self, version: Version, file: &Sight, at: u64, into: &mut [u8]) -> Option<()> {
        let (mut file, mut done) = (*file, 0);
        while done < into.len() {
            let found = self.find(version, &mut file, at + done as u64)?;
            let (Found::At(_, together) | Found::Hole(together)) = found;
            let len = together.min((into.len() - done) as u64) as usize;
            let part = &mut into[done..done + len];
            match found {
                Found::At(place, _) => self.memory.load(place, part),
                Found::Hole(_) => part.fill(0),
            }
            done += len;
        }
        Some(())
    }

    /// Where the bytes from byte `at` on lie, and how many together; within the pool, whatever was found. They are in the
    /// 2 MiB that were seen, or are the first of others, which are then looked at.
    #[inline(always)]
    fn find(&self, version: Version, seen: &mut Sight, at: u64) -> Option<Found> {
        let viewer = self.viewer(version);
        if at.is_multiple_of(CHUNK) {
            *seen = viewer.look(at)?;
        }
        let found = viewer.find(seen, at)?;
        let fits = |place: u64, len| place.checked_add(len).is_some_and(|end| end <= self.memory.size());
        match found {
            Found::At(place, together) => fits(place, together).then_some(found),
            Found::Hole(_) => Some(found),
        }
    }

    /// Writes over what is there in the usual case, which is to take few instructions: nothing is said of others (FG1, FG2).
    #[inline(always)]
    pub fn write_together(&self, seat: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> Option<()> {
        let _pin = self.foreign.pin(self.board.pin(seat))?;
        let version = self.board.version_to_write(self.ino)?;
        let (file, place) = self.recall(version, at, from.len())?;
        file.expect_store(self.memory, at, place);
        if at + from.len() as u64 > file.settled() || !self.lets_write() || !self.is_still(version) {
            return None;
        }
        ferrite_fs::stop_point!(Store);
        self.memory.store(place, from, Scheme::Nt);
        if self.settle(version, file.mtime, now) { Some(()) } else { None }
    }

    /// Makes what was stored durable, in a file that says that it changed at `mtime`; whether it is in the file, as nobody
    /// changed or took anything away meanwhile (FG1). All that is looked at is looked at while the bytes are on their way, for
    /// which the fence waits; the pin outlasts that.
    #[inline(always)]
    fn settle(&self, version: Version, mtime: i64, now: impl Fn() -> i64) -> bool {
        self.foreign.order();
        let counts = self.is_still(version) && self.board.version_to_write(self.ino).is_some() && self.lets_write();
        if counts {
            self.note_write(mtime, now());
        }
        ferrite_fs::planted!(ReturnBeforeFence => return counts);
        self.memory.fence();
        counts
    }

    /// Notes that the file, whose inode says that it changed at `mtime`, was written to.
    #[inline(always)]
    fn note_write(&self, mtime: i64, now: i64) {
        let noted = self.board.written(self.slot);
        let is_to_note = |known: i64| now.abs_diff(known) >= TIME_GRAIN_NS;
        if is_to_note(mtime) && is_to_note(noted.load(Ordering::Relaxed) as i64) {
            noted.store(now as u64, Ordering::Relaxed);
        }
    }

    /// Writes over what is there, but not what the size rests on, which is for who has the end (FG1, FG2, FP3).
    #[inline]
    pub fn write(&self, seat: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> Tried<()> {
        if !self.may_write_soon() {
            return Tried::Refused;
        }
        let Some(_pin) = self.foreign.pin(self.board.pin(seat)) else { return Tried::Refused };
        if !self.lets_write() {
            return Tried::Refused;
        }
        let Some(version) = self.board.version_to_write(self.ino) else { return Tried::Overtaken };
        let file = self.viewer(version).look(at);
        let is_within = |file: &Sight| at.checked_add(from.len() as u64).is_some_and(|end| end <= file.settled());
        let Some(file) = file.filter(is_within) else {
            return if self.is_still(version) { Tried::Refused } else { Tried::Overtaken };
        };
        let stored = self.copy_in(version, &file, at, from);
        if stored != Tried::Done(()) {
            return if stored == Tried::Overtaken { Tried::Overtaken } else { Tried::Refused };
        }
        if self.settle(version, file.mtime, now) { Tried::Done(()) } else { Tried::Overtaken }
    }

    /// Stores where pages are, while nothing changes. Of what was stored when that ends early nobody is told, but none of it
    /// comes later than the pin ends (FG2).
    #[inline]
    fn copy_in(&self, version: Version, file: &Sight, at: u64, from: &[u8]) -> Tried<()> {
        let stored = self.copy_pages(version, file, at, from);
        if stored != Tried::Done(()) {
            self.memory.fence();
        }
        stored
    }

    #[inline]
    fn copy_pages(&self, version: Version, file: &Sight, at: u64, from: &[u8]) -> Tried<()> {
        let (mut file, mut done) = (*file, 0);
        while done < from.len() {
            let found = self.find(version, &mut file, at + done as u64);
            // What was found is ours to store to only if nothing changed while we looked.
            if !self.is_still(version) {
                return Tried::Overtaken;
            }
            let Some(Found::At(place, together)) = found else { return Tried::NoPages };
            let len = together.min((from.len() - done) as u64) as usize;
            ferrite_fs::stop_point!(Store);
            self.memory.store(place, &from[done..done + len], Scheme::Nt);
            done += len;
        }
        Tried::Done(())
    }
}
