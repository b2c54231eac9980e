//! The lines that a set was last asked for, whether they are still in it or not.

use std::hint::select_unpredictable;

use super::reuse::{AgeCell, NOTHING, cell};
use super::reuse_age::{EDGES, OLDEST, after};
use super::step;
use crate::cache::set::equal;

/// What comes back: any access, or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseKind {
    Used,
    Written,
}

/// Those of one set. They stay where they are; how recently each was asked for a ring tells.
pub struct Ghosts {
    /// Accesses to the set, from [`BEGIN`].
    clock: u32,
    /// Of them make a step of age.
    step: u32,
    /// A hash of the number of each: they are looked through together.
    prints: Vec<u16>,
    all: Vec<Ghost>,
    /// Places that were filled, the first ones.
    filled: usize,
    ring: RecencyRing,
}

/// What is remembered of a line.
#[derive(Clone, Copy)]
struct Ghost {
    /// Steps until it was used, and written: [`NEVER`] if it was not.
    used: u32,
    written: u32,
    used_class: u16,
    written_class: u16,
}

/// Steps after which nobody knows how long ago a write was.
const KNOWN: u32 = EDGES[EDGES.len() - 1] as u32 - 1;

/// A step so long before the first that what was then is not known.
const NEVER: u32 = 0;
const BEGIN: u32 = KNOWN + 1;

impl Ghost {
    const NONE: Self = Self { used: NEVER, written: NEVER, used_class: 0, written_class: 0 };
}

/// So many prints are compared at once.
const PART: usize = 64;

/// What an access found among them.
pub struct GhostLookup {
    is_write: bool,
    now: u32,
    /// What was known of the line, if it is there.
    before: Option<Ghost>,
    forgotten: Option<Ghost>,
}

impl Ghosts {
    /// Of a set of a kind with so many ways: eight times as many lines as it holds.
    pub fn of(ways: usize) -> Self {
        let (step, depth) = (u32::from(step(ways)), 8 * ways);
        let (prints, all) = (vec![0; depth], vec![Ghost::NONE; depth]);
        Self { clock: BEGIN * step, step, prints, all, filled: 0, ring: RecencyRing::of(depth) }
    }

    /// An access to the line with this hash, which is of these classes from now on.
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

    /// The place of `print`, if it was filled. The line that was asked for last is often asked for again.
    #[inline]
    fn find(&self, print: u16) -> Option<usize> {
        let newest = self.ring.newest;
        let place = if self.prints[newest] == print { newest } else { self.first(print) };
        (place < self.filled).then_some(place)
    }

    /// The first place of `print`, or one beyond all. No branch depends on where it is.
    #[inline]
    fn first(&self, print: u16) -> usize {
        let parts = self.prints.chunks(PART).enumerate().rev();
        parts.fold(usize::MAX, |place, (at, part)| {
            let equal = equal(part, print);
            select_unpredictable(equal != 0, at * PART + equal.trailing_zeros() as usize, place)
        })
    }
}

/// Places in a ring, from the newest to the oldest, which is before the newest. At first the last place is the newest.
struct RecencyRing {
    newest: usize,
    /// The one newer and the one older than each.
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
    /// What the line was, if it came back by this access; otherwise [`NOTHING`].
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

    /// What a line was that was forgotten and so has not come back; otherwise [`NOTHING`].
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

    /// Whether it was so short a time ago that its age can be told.
    fn is_known(&self, written: u32) -> bool {
        self.now - written < KNOWN
    }
}

#[cfg(test)]
mod tests;
