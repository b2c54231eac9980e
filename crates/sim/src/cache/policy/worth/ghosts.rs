//! The lines of the last accesses to a set, both those still in the set and those replaced.

use std::hint::select_unpredictable;

use super::reuse::{AgeCell, NOTHING, cell};
use super::reuse_age::{EDGES, OLDEST, after};
use super::step;
use crate::cache::set::equal;

/// The event that brings a line back: any access, or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseKind {
    Used,
    Written,
}

/// The remembered lines of one set. They keep their places; a ring gives the order of their last accesses.
pub struct Ghosts {
    /// Accesses to the set, starting at [`BEGIN`].
    clock: u32,
    /// Accesses in a step of age.
    step: u32,
    /// A hash of each line's number: the hashes are compared together.
    prints: Vec<u16>,
    all: Vec<Ghost>,
    /// The number of filled places, the first ones.
    filled: usize,
    ring: RecencyRing,
}

/// The remembered state of a line.
#[derive(Clone, Copy)]
struct Ghost {
    /// The steps of the last use and of the last write. [`NEVER`] stands for no use, or no write, so far.
    used: u32,
    written: u32,
    used_class: u16,
    written_class: u16,
}

/// The most steps for which the age of a write is known.
const KNOWN: u32 = EDGES[EDGES.len() - 1] as u32 - 1;

/// A step so long before the first that its age is not known.
const NEVER: u32 = 0;
const BEGIN: u32 = KNOWN + 1;

impl Ghost {
    const NONE: Self = Self { used: NEVER, written: NEVER, used_class: 0, written_class: 0 };
}

/// Hashes that are compared at once.
const PART: usize = 64;

/// The result of looking up an access among the ghosts.
pub struct GhostLookup {
    is_write: bool,
    now: u32,
    /// The remembered state of the line, if it is among them.
    before: Option<Ghost>,
    forgotten: Option<Ghost>,
}

impl Ghosts {
    /// Returns the ghosts of a set of a kind with `ways` ways: eight times as many lines as it holds.
    pub fn of(ways: usize) -> Self {
        let (step, depth) = (u32::from(step(ways)), 8 * ways);
        let (prints, all) = (vec![0; depth], vec![Ghost::NONE; depth]);
        Self { clock: BEGIN * step, step, prints, all, filled: 0, ring: RecencyRing::of(depth) }
    }

    /// Looks up the line with the hash `print` and remembers it with these classes.
    #[inline(always)]
    pub fn meet(&mut self, print: u16, is_write: bool, used_class: u16, written_class: u16) -> GhostLookup {
        self.clock += 1;
        let step = self.clock / self.step;
        let found = self.find(print);
        let place = found.unwrap_or(self.ring.oldest());
        let old = self.all[place];
        let before = found.map(|_| old);
        let last = before.unwrap_or(Ghost::NONE);
        let (written, written_class) =
            if is_write { (step, written_class) } else { (last.written, last.written_class) };
        let ghost = Ghost { used: step, written, used_class, written_class };
        let is_new = place == self.filled;
        self.filled += usize::from(is_new);
        (self.prints[place], self.all[place]) = (print, ghost);
        self.ring.renew(place);
        GhostLookup { is_write, now: step, before, forgotten: (found.is_none() && !is_new).then_some(old) }
    }

    /// Returns the filled place of `print`, if any. The most recent line is checked first, because it is often accessed
    /// again.
    #[inline]
    fn find(&self, print: u16) -> Option<usize> {
        let newest = self.ring.newest;
        let place = if self.prints[newest] == print { newest } else { self.first(print) };
        (place < self.filled).then_some(place)
    }

    /// Returns the first place of `print`, or `usize::MAX`. No branch depends on the place.
    #[inline]
    fn first(&self, print: u16) -> usize {
        let parts = self.prints.chunks(PART).enumerate().rev();
        parts.fold(usize::MAX, |place, (at, part)| {
            let equal = equal(part, print);
            select_unpredictable(equal != 0, at * PART + equal.trailing_zeros() as usize, place)
        })
    }
}

/// Places in a ring, from the newest to the oldest, which precedes the newest. At first the last place is the newest.
struct RecencyRing {
    newest: usize,
    /// The next newer and the next older place of each place.
    newer: Vec<u16>,
    older: Vec<u16>,
}

impl RecencyRing {
    fn of(places: usize) -> Self {
        let turned = |by: usize| (0..places).map(|place| ((place + by) % places) as u16).collect();
        Self { newest: places - 1, newer: turned(1), older: turned(places - 1) }
    }

    fn oldest(&self) -> usize {
        self.newer[self.newest].into()
    }

    /// Makes `place` the newest.
    fn renew(&mut self, place: usize) {
        if place == self.newest {
            return;
        }
        self.link(self.newer[place].into(), self.older[place].into());
        self.link(self.oldest(), place);
        self.link(place, self.newest);
        self.newest = place;
    }

    fn link(&mut self, newer: usize, older: usize) {
        self.older[newer] = older as u16;
        self.newer[older] = newer as u16;
    }
}

impl GhostLookup {
    /// Returns the cell of the line if this access brought it back; otherwise [`NOTHING`].
    #[inline]
    pub fn again(&self, kind: ReuseKind) -> AgeCell {
        let Some(ghost) = self.before else { return NOTHING };
        let of = |class, since| cell(class, after(self.now - since));
        match kind {
            ReuseKind::Used => of(ghost.used_class, ghost.used),
            ReuseKind::Written => {
                let is_again = self.is_write & self.is_known(ghost.written);
                select_unpredictable(is_again, of(ghost.written_class, ghost.written), NOTHING)
            }
        }
    }

    /// Returns the cell of a line that was forgotten before it came back; otherwise [`NOTHING`].
    #[inline]
    pub fn lost(&self, kind: ReuseKind) -> AgeCell {
        let Some(ghost) = self.forgotten else { return NOTHING };
        match kind {
            ReuseKind::Used => cell(ghost.used_class, OLDEST),
            ReuseKind::Written => {
                select_unpredictable(self.is_known(ghost.written), cell(ghost.written_class, OLDEST), NOTHING)
            }
        }
    }

    /// Returns true if the write was recent enough that its age is known.
    fn is_known(&self, written: u32) -> bool {
        self.now - written < KNOWN
    }
}

#[cfg(test)]
mod tests;
