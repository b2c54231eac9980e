//! What a client does with a file by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_medium::{Memory, Scheme, order_loads};

use super::board::{Board, LEASES, Version};
use super::client::Session;
use super::request::Leased;
use super::seat;
use super::state::State;
use crate::Ino;
use crate::glance::{Glance, run_at_a_glance};
use crate::write::TIME_GRAIN_NS;

/// How often something is tried that somebody else's change came between.
const TRIES: u32 = 4;
/// Looks at an inode that somebody is changing.
const LOOKS: u32 = 200;

/// The right to work on one file by oneself. Every operation says `None` where it has to be done through the mount: now,
/// or not by this client. Given back when dropped.
#[derive(Debug)]
pub struct Lease {
    session: Arc<Session>,
    ino: Ino,
    slot: usize,
    serial: u64,
}

impl Lease {
    pub(super) fn new(session: Arc<Session>, ino: Ino, leased: Leased) -> Option<Self> {
        let slot = leased.slot as usize;
        (slot < LEASES).then_some(Self { session, ino, slot, serial: leased.serial })
    }

    #[inline]
    fn board(&self) -> &Board {
        self.session.board()
    }

    #[inline]
    fn state(&self) -> State {
        State(self.board().lease(self.slot).load(Ordering::Acquire))
    }

    /// The file as it is between two changes.
    #[inline]
    fn look(&self) -> Option<(Version, Glance)> {
        let version = (0..LOOKS).find_map(|_| {
            self.board().even_version(self.ino).or_else(|| {
                std::hint::spin_loop();
                None
            })
        })?;
        let at = self.board().inode_place(self.ino.0)?;
        Some((version, Glance::of(&self.session.memory, at)?))
    }

    /// Whether what was loaded since `version` counts (FG1, FG4).
    #[inline]
    fn is_still(&self, version: Version) -> bool {
        order_loads();
        self.board().is_still(self.ino, version)
    }

    /// Whether the owner lives and lets us read.
    #[inline]
    fn lets_read(&self) -> bool {
        !self.session.is_over() && self.state().lets_read(self.serial)
    }

    /// Reads from byte `at` on; how many bytes: fewer than asked for at the end only, none at the end.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        for _ in 0..TRIES {
            if !self.lets_read() {
                return None;
            }
            let (version, file) = self.look()?;
            let len = file.size.saturating_sub(at).min(into.len() as u64) as usize;
            let copied = self.copy_out(&file, at, &mut into[..len]);
            if self.is_still(version) && self.lets_read() {
                copied?;
                self.note_access(&file, len);
                return Some(len);
            }
        }
        None
    }

    #[inline]
    fn copy_out(&self, file: &Glance, at: u64, into: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < into.len() {
            let from = at + done as u64;
            let (place, together) = run_at_a_glance(&self.session.memory, self.board(), file, from)?;
            let len = together.min((into.len() - done) as u64) as usize;
            self.in_pool(place, len)?;
            self.session.memory.load(place, &mut into[done..done + len]);
            done += len;
        }
        Some(())
    }

    /// Guards against what was never a place: words that changed under a look.
    #[inline]
    fn in_pool(&self, place: u64, len: usize) -> Option<()> {
        place.checked_add(len as u64).filter(|end| *end <= self.session.memory.size()).map(|_| ())
    }

    /// As `relatime` has it.
    #[inline]
    fn note_access(&self, file: &Glance, len: usize) {
        let word = self.board().accessed(self.slot);
        if file.atime <= file.mtime && len > 0 && self.session.writable && word.load(Ordering::Relaxed) == 0 {
            word.store((self.session.clock)().0 as u64, Ordering::Relaxed);
        }
    }

    /// Writes from byte `at` on, over what is there; how many bytes: all of them, durable on return.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> Option<usize> {
        let end = at.checked_add(from.len() as u64)?;
        let seat = seat::seat(&self.session)?;
        (0..TRIES).find_map(|_| match self.try_write(seat, at, from, end) {
            Tried::Done => Some(Some(from.len())),
            Tried::Refused => Some(None),
            Tried::Overtaken => None,
        })?
    }

    /// FG2: under a pin and a version; FG1: looked at again when all is stored.
    #[inline]
    fn try_write(&self, seat: usize, at: u64, from: &[u8], end: u64) -> Tried {
        let (session, board) = (&*self.session, self.board());
        let Some(_pin) = session.foreign.pin(board.pin(seat)) else { return Tried::Refused };
        let lets = || {
            !session.is_over()
                && self.state().lets_write(self.serial)
                && board.gate().load(Ordering::Acquire) == 0
                && board.version_to_write(self.ino).is_some()
        };
        if session.is_over() || !self.state().lets_write(self.serial) || board.gate().load(Ordering::Acquire) != 0 {
            return Tried::Refused;
        }
        let Some((version, file)) = self.look() else { return Tried::Refused };
        if end > file.size || !lets() {
            return if self.is_still(version) { Tried::Refused } else { Tried::Overtaken };
        }
        match self.copy_in(version, &file, at, from) {
            Tried::Done => {}
            other => return other,
        }
        session.memory.fence();
        session.foreign.order();
        if !self.is_still(version) || !lets() {
            return Tried::Overtaken;
        }
        self.note_write(&file);
        Tried::Done
    }

    #[inline]
    fn copy_in(&self, version: Version, file: &Glance, at: u64, from: &[u8]) -> Tried {
        let mut done = 0;
        while done < from.len() {
            let run = run_at_a_glance(&self.session.memory, self.board(), file, at + done as u64);
            // What was found is ours to store to only if nothing changed while we looked.
            if !self.is_still(version) {
                return Tried::Overtaken;
            }
            let Some((place, together)) = run else { return Tried::Refused };
            let len = together.min((from.len() - done) as u64) as usize;
            if self.in_pool(place, len).is_none() {
                return Tried::Refused;
            }
            self.session.memory.store(place, &from[done..done + len], Scheme::Nt);
            done += len;
        }
        Tried::Done
    }

    /// The inode says it when the owner has time.
    #[inline]
    fn note_write(&self, file: &Glance) {
        let now = (self.session.clock)().0;
        let word: &AtomicU64 = self.board().written(self.slot);
        if now.abs_diff(file.mtime) >= TIME_GRAIN_NS
            && now.abs_diff(word.load(Ordering::Relaxed) as i64) >= TIME_GRAIN_NS
        {
            word.store(now as u64, Ordering::Relaxed);
        }
    }

    /// Writes behind the last byte; where it went, and how many bytes.
    pub fn append(&self, from: &[u8]) -> Option<(u64, usize)> {
        let _ = from;
        None
    }

    /// Bytes that the file has.
    pub fn size(&self) -> Option<u64> {
        (0..TRIES).find_map(|_| {
            let (version, file) = self.look().filter(|_| self.lets_read())?;
            (self.is_still(version) && self.lets_read()).then_some(file.size)
        })
    }

    /// Every write was durable when it returned.
    pub fn sync(&self) -> Option<()> {
        self.lets_read().then_some(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.session.give_back(self.ino);
    }
}

/// What came of a try.
enum Tried {
    Done,
    /// It is not for us.
    Refused,
    /// Somebody changed something meanwhile.
    Overtaken,
}
