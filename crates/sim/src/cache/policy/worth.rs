//! What a line is worth decides: how soon it is expected to be used, and if it is dirty how soon it is expected to be
//! written, for then its writeback is saved.
//!
//! Each line has a class: what was done to it, how often it was found, and what its neighbourhood is like. [`Reuse`]
//! learns for each class after how many accesses to the set such lines come back, and from that what keeping one of
//! such an age gains for each access that it stays. A writeback counts as several misses: as many as [`Allowance`] finds
//! can be afforded, for in one set of sixteen a [`Shadow`] tells what LRU would have done; where there would be more misses
//! or writebacks than LRU has, it does as LRU does. In the same sets [`Ghosts`] remember what left.
//! docs/policy.md tells what all this takes in hardware, and where it fails.
//!
//! 1. The line that is worth least leaves, the least recent of equals. Before anything is learned, and while what is
//!    allowed is spent, the least recent line leaves.
//! 2. Ages are counted in steps of four accesses to the set, of sixteen where sets have more than sixteen ways, up to
//!    [`AGE_MAX`].
//! 3. A bank learns from its own sets alone, and everything is an integer.

mod allowance;
mod ghosts;
mod lines;
mod regions;
mod reuse;
mod shadow;

use super::{Hit, Miss, Policy};
use crate::cache::Geometry;
use crate::cache::set::{Rank, Set};
use allowance::Allowance;
use ghosts::Ghosts;
use lines::{Line, Lines};
use regions::{Kind, Regions};
use reuse::{NO_CLASS, Reuse};
use shadow::{Lru, Shadow};

/// The greatest age of a line: of one that is older too, and of one that was not written.
const AGE_MAX: u8 = u8::MAX;

/// One set of so many is watched: it has ghosts and a shadow.
const WATCHED: usize = 16;

/// Accesses to watched sets from one learning to the next.
const PERIOD: u64 = 512;

/// One of the first learnings comes when so many were seen, and then at each doubling.
const FIRST: u64 = 256;

/// Most finds of a line that are told apart.
const FOUND_MAX: u8 = 3;

/// Keeps what is worth most, in sets of kind `S`, of at most `W` ways.
pub struct Worth<S, const W: usize> {
    geometry: Geometry,
    sets: Vec<Lines<W>>,
    turns: Vec<Turn>,
    used: Reuse,
    written: Reuse,
    watched: Vec<(Ghosts, Shadow<S>)>,
    regions: Regions,
    allowance: Allowance,
    seen: u64,
}

/// How far a set is.
#[derive(Clone, Copy, Default)]
struct Turn {
    /// Accesses, from 0 again after each 256.
    clock: u8,
    /// Ways that were filled.
    filled: u8,
}

/// Accesses to a set of a kind with so many ways that make its lines older by one.
const fn step(ways: usize) -> u8 {
    (ways / 4) as u8
}

/// An access, as classes see it.
#[derive(Clone, Copy)]
struct Touch {
    line: u64,
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
            regions: Regions::default(),
            allowance: Allowance::default(),
            seen: 0,
        }
    }

    #[inline]
    fn touch(&mut self, touch: Touch) {
        let (lines, turn) = (&mut self.sets[touch.set], &mut self.turns[touch.set]);
        turn.clock = turn.clock.wrapping_add(1);
        let steps = u8::from(turn.clock.is_multiple_of(step(W)));
        let mut line = if touch.is_hit { lines.line(touch.way).older_by(steps) } else { Line::NEW };
        lines.grow_older(steps);
        if touch.is_hit && !touch.set.is_multiple_of(WATCHED) {
            self.used.came_back(line.used_class, line.used_age);
            let again = if touch.is_write { line.written_class } else { NO_CLASS };
            self.written.came_back(again, line.written_age);
        }
        let found = (found(line.used_class) + u8::from(touch.is_hit && !touch.is_write)).min(FOUND_MAX);
        line.used_class = used_class(&touch, found, self.regions.level(touch.line, Kind::Used));
        line.used_age = 0;
        let class = written_class(line.written_age, found, self.regions.level(touch.line, Kind::Written));
        if touch.is_write {
            (line.written_class, line.written_age) = (class, 0);
        }
        lines.put(touch.way, line);
        if touch.set.is_multiple_of(WATCHED) {
            self.watch(&touch, line);
        }
    }

    fn watch(&mut self, touch: &Touch, line: Line) {
        let (ghosts, shadow) = &mut self.watched[touch.set / WATCHED];
        let lru = shadow.access(print(touch.line), touch.is_write, self.geometry.ways);
        let own = Lru { misses: !touch.is_hit, dirties: touch.is_write && !touch.was_dirty };
        self.allowance.access(lru, own);
        let met = ghosts.meet(touch.line, touch.is_write, line);
        for (kind, reuse) in [(Kind::Used, &mut self.used), (Kind::Written, &mut self.written)] {
            if let Some((class, age)) = met.again(kind) {
                reuse.came_back(class, age);
                self.regions.learn(touch.line, kind, Some(age));
            }
            if let Some((class, region)) = met.lost(kind) {
                reuse.left(class, AGE_MAX);
                self.regions.learn_at(region, kind, None);
            }
        }
        self.seen += 1;
        let is_early = self.seen < PERIOD && self.seen >= FIRST && self.seen.is_power_of_two();
        if is_early || self.seen.is_multiple_of(PERIOD) {
            self.used.learn(!is_early);
            self.written.learn(!is_early);
        }
    }

    /// The rank of the line that is worth least, the least recent of equals. No branch depends on what a line is: none
    /// could be foretold.
    #[inline]
    fn least(&self, set: &impl Set, lines: &Lines<W>, weight: u32) -> Rank {
        let last = W as u32 - 1;
        let all = (0..self.geometry.ways).map(|rank| {
            let line = lines.line(set.way(rank) % W);
            let used = self.used.worth(line.used_class, line.used_age) * Allowance::ONE;
            let saved = self.written.worth(line.written_class, line.written_age) * weight;
            (used + saved) * W as u32 + (last - rank)
        });
        last - all.min().unwrap_or(last) % W as u32
    }
}

impl<S: Set, const W: usize> Policy for Worth<S, W> {
    #[inline]
    fn victim<T: Set>(&mut self, set: &T, miss: Miss) -> Rank {
        let at = self.geometry.set_in_bank(miss.line);
        let (last, turn) = (self.geometry.ways - 1, &mut self.turns[at]);
        if u32::from(turn.filled) <= last {
            turn.filled += 1;
            return last;
        }
        let lines = &self.sets[at];
        let weight = self.allowance.weight().filter(|_| self.seen >= FIRST);
        let least = weight.map_or(last, |weight| self.least(set, lines, weight));
        if !at.is_multiple_of(WATCHED) {
            let line = lines.line(set.way(least));
            self.used.left(line.used_class, line.used_age);
            self.written.left(line.written_class, line.written_age);
        }
        least
    }

    fn window(&self) -> u32 {
        self.geometry.ways
    }

    #[inline]
    fn hit(&mut self, hit: Hit) {
        let Hit { line, way, is_write, was_dirty, .. } = hit;
        self.touch(Touch { line, set: self.geometry.set_in_bank(line), way, is_write, is_hit: true, was_dirty });
    }

    #[inline]
    fn filled(&mut self, way: usize, miss: Miss) {
        let Miss { line, is_write, .. } = miss;
        let set = self.geometry.set_in_bank(line);
        self.touch(Touch { line, set, way, is_write, is_hit: false, was_dirty: false });
    }
}

/// The hash by which a line is known that may have left.
#[inline]
fn print(line: u64) -> u16 {
    (line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16
}

/// Levels of a neighbourhood, times how often a read found the line, whether it is dirty, whether it was written last.
const USED_CLASSES: usize = regions::LEVELS * (FOUND_MAX as usize + 1) * 4;

/// Levels of a neighbourhood, times how long before the line had been written, times whether a read has found it.
const WRITTEN_CLASSES: usize = regions::LEVELS * 16;

const _: () = assert!(USED_CLASSES <= NO_CLASS as usize && WRITTEN_CLASSES <= NO_CLASS as usize);

#[inline]
fn used_class(touch: &Touch, found: u8, level: u8) -> u8 {
    let is_dirty = touch.was_dirty || touch.is_write;
    ((level * (FOUND_MAX + 1) + found) << 2) | u8::from(is_dirty) << 1 | u8::from(touch.is_write)
}

/// How often a read has found a line of this class.
#[inline]
fn found(used_class: u8) -> u8 {
    used_class >> 2 & FOUND_MAX
}

#[inline]
fn written_class(age: u8, found: u8, level: u8) -> u8 {
    (level << 3 | BEFORE[usize::from(age)]) << 1 | u8::from(found > 0)
}

/// For each age of a write in which of eight steps it is.
static BEFORE: [u8; 256] = {
    let (mut before, mut age) = ([0; 256], 0);
    while age < 256 {
        before[age] = match age {
            0..2 => 0,
            2..4 => 1,
            4..8 => 2,
            8..16 => 3,
            16..40 => 4,
            40..100 => 5,
            100..255 => 6,
            _ => 7,
        };
        age += 1;
    }
    before
};
