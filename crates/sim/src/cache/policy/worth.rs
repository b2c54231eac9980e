//! What a line is worth decides: how soon it is expected to be used, and if it is dirty how soon it is expected to be
//! written, for then its writeback is saved.
//!
//! Each line has two classes, one for its next use and one for its next write: the signature of the instruction that
//! used it, or wrote it, last, and a little of its story. [`Reuse`] learns for each class after how many accesses to the
//! set such lines come back, and from that what keeping one of such an age gains for each access that it stays. A
//! writeback counts as several misses: as many as [`Allowance`] finds can be afforded, for in one set of sixteen a
//! [`Shadow`] tells what LRU would have done; where there would be more misses or writebacks than LRU has, it does as LRU
//! does. In the same sets [`Ghosts`] remember what left.
//! docs/policy.md tells what all this takes in hardware, and where it fails.
//!
//! 1. The line that is worth least leaves, the least recent of equals. Before anything is learned, and while what is
//!    allowed is spent, the least recent line leaves. So it does in sets without shadows until something was saved in
//!    those with; then unless another is worth less than a share of it, that grows with what was saved.
//! 2. Ages are counted in steps of four accesses to the set, of sixteen where sets have more than sixteen ways: see [`age`].
//! 3. A bank learns from its own sets alone, and everything is an integer.

mod age;
mod allowance;
mod ghosts;
mod lines;
mod reuse;
mod shadow;

use std::hint::select_unpredictable;

use super::{Hit, Miss, Policy};
use crate::cache::Geometry;
use crate::cache::set::{Rank, Set};
use age::going_on;
use allowance::Allowance;
use ghosts::{Ghosts, Kind};
use lines::{Line, Lines};
use reuse::{NOTHING, Reuse, SIGNATURE_BITS, cell, class};
use shadow::{Lru, Shadow};

/// One set of so many is watched: it has ghosts and a shadow.
const WATCHED: usize = 16;

/// Accesses to watched sets from one learning to the next.
const PERIOD: u64 = 384;

/// Keeps what is worth most, in sets of kind `S`, of at most `W` ways.
pub struct Worth<S, const W: usize> {
    geometry: Geometry,
    sets: Vec<Lines<W>>,
    turns: Vec<Turn>,
    used: Reuse,
    written: Reuse,
    watched: Vec<(Ghosts, Shadow<S>)>,
    allowance: Allowance,
    seen: u64,
}

/// How far a set is.
#[derive(Clone, Copy, Default)]
struct Turn {
    /// Accesses; how many there were before the last 65536 matters to no age.
    clock: u16,
    /// Ways that were filled.
    filled: u16,
}

/// Accesses to a set of a kind with so many ways that make a step.
const fn step(ways: usize) -> u16 {
    (ways / 4) as u16
}

/// An access, as classes see it.
#[derive(Clone, Copy)]
struct Touch {
    line: u64,
    signature: u8,
    set: usize,
    way: usize,
    is_write: bool,
    is_hit: bool,
    was_dirty: bool,
}

impl<S: Set, const W: usize> Worth<S, W> {
    /// For one bank.
    pub fn new(geometry: Geometry) -> Self {
        let sets = geometry.bank_sets() as usize;
        Self {
            geometry,
            sets: vec![Lines::EMPTY; sets],
            turns: vec![Turn::default(); sets],
            used: Reuse::new(),
            written: Reuse::new(),
            watched: (0..sets.div_ceil(WATCHED)).map(|_| (Ghosts::of(W), Shadow::EMPTY)).collect(),
            allowance: Allowance::default(),
            seen: 0,
        }
    }

    #[inline(always)]
    fn touch(&mut self, touch: Touch) {
        let (lines, turn) = (&mut self.sets[touch.set], &mut self.turns[touch.set]);
        turn.clock = turn.clock.wrapping_add(1);
        let limit = going_on(turn.clock, step(W));
        let mut line = if touch.is_hit { lines.line(touch.way).older(limit) } else { Line::NEW };
        if touch.is_hit && !is_watched(touch.set) {
            self.used.came_back(line.used);
            self.written.came_back(select_unpredictable(touch.is_write, line.written, NOTHING));
        }
        let written = cell(written_class(&touch, line), 0);
        line.written = select_unpredictable(touch.is_write, written, line.written);
        line.used = cell(used_class(&touch, line), 0);
        lines.grow_older(limit, touch.way, line);
        if is_watched(touch.set) {
            self.watch(&touch, line);
        }
    }

    #[inline(always)]
    fn watch(&mut self, touch: &Touch, line: Line) {
        let (ghosts, shadow) = &mut self.watched[touch.set / WATCHED];
        let lru = shadow.access(print(touch.line), touch.is_write, self.geometry.ways);
        let own = Lru { misses: !touch.is_hit, dirties: touch.is_write && !touch.was_dirty };
        self.allowance.access(lru, own);
        let met = ghosts.meet(print(touch.line), touch.is_write, class(line.used), class(line.written));
        for (kind, reuse) in [(Kind::Used, &mut self.used), (Kind::Written, &mut self.written)] {
            reuse.came_back(met.again(kind));
            reuse.left(met.lost(kind));
        }
        self.seen += 1;
        if self.seen.is_multiple_of(PERIOD) {
            self.used.learn();
            self.written.learn();
        }
    }

    /// The rank of the line that is worth least, the least recent of equals. Those in sets that are watched go by what was
    /// learned, the others only as far as it is proven there. No branch depends on what a line is: none could be foretold.
    #[inline(always)]
    fn least(&self, set: &impl Set, last: Rank, lines: &Lines<W>, weight: u32, is_watched: bool) -> Rank {
        let worth = |rank| {
            let line = lines.line(set.way(rank) % W);
            self.used.worth(line.used) * Allowance::ONE + self.written.worth(line.written) * weight
        };
        let place = |rank| W as u32 - 1 - rank;
        let others = (0..last).map(|rank| worth(rank) * W as u32 + place(rank)).min();
        let own = if is_watched { worth(last) } else { self.allowance.cautious(worth(last)) };
        let own = own * W as u32 + place(last);
        place(others.map_or(own, |others| others.min(own)) % W as u32)
    }
}

impl<S: Set, const W: usize> Policy for Worth<S, W> {
    #[inline(always)]
    fn victim<T: Set>(&mut self, set: &T, miss: Miss) -> Rank {
        let at = self.geometry.set_in_bank(miss.line);
        let (last, turn) = (self.geometry.ways - 1, &mut self.turns[at]);
        if u32::from(turn.filled) <= last {
            turn.filled += 1;
            return last;
        }
        let lines = &self.sets[at];
        let is_watched = is_watched(at);
        let least = match self.allowance.weight().filter(|_| self.seen >= PERIOD) {
            None => last,
            Some(weight) if last as usize == W - 1 => self.least(set, W as u32 - 1, lines, weight, is_watched),
            Some(weight) => self.least(set, last, lines, weight, is_watched),
        };
        if !is_watched {
            let line = lines.line(set.way(least));
            self.used.left(line.used);
            self.written.left(line.written);
        }
        least
    }

    fn window(&self) -> u32 {
        self.geometry.ways
    }

    #[inline(always)]
    fn hit(&mut self, hit: Hit) {
        let Hit { line, signature, way, is_write, was_dirty, .. } = hit;
        let set = self.geometry.set_in_bank(line);
        self.touch(Touch { line, signature, set, way, is_write, is_hit: true, was_dirty });
    }

    #[inline(always)]
    fn filled(&mut self, way: usize, miss: Miss) {
        let Miss { line, signature, is_write, .. } = miss;
        let set = self.geometry.set_in_bank(line);
        self.touch(Touch { line, signature, set, way, is_write, is_hit: false, was_dirty: false });
    }
}

/// Whether a set is watched: of each group of so many the next one, so that every place in a page has its share.
#[inline]
fn is_watched(set: usize) -> bool {
    set % WATCHED == set / WATCHED % WATCHED
}

/// The hash by which a line is known that may have left.
#[inline]
fn print(line: u64) -> u16 {
    (line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16
}

/// A class of this signature, and with two bits beside it.
#[inline]
fn signed(signature: u8, story: u16) -> u16 {
    u16::from(signature >> (8 - SIGNATURE_BITS)) << 2 | story
}

/// Whether a read has found the line, and whether it is dirty.
#[inline]
fn used_class(touch: &Touch, before: Line) -> u16 {
    let was_found = class(before.used) & 2 != 0;
    let is_found = was_found || touch.is_hit && !touch.is_write;
    signed(touch.signature, u16::from(is_found) << 1 | u16::from(touch.was_dirty || touch.is_write))
}

/// How long before this write the line had been written, in four steps.
#[inline]
fn written_class(touch: &Touch, before: Line) -> u16 {
    let [soon, later, late] = BEFORE;
    let age = reuse::age(before.written);
    signed(touch.signature, u16::from(age >= soon) + u16::from(age >= later) + u16::from(age >= late))
}

/// The ages of a write from which on it is a step longer ago: 4, 16 and 96 steps.
const BEFORE: [u16; 3] = [4, 11, 18];
