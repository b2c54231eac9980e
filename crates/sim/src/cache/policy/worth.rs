//! A policy that replaces the line of the least worth. The worth is how soon the line is expected to be used; for a
//! dirty line also how soon it is expected to be written, because then its writeback is saved.
//!
//! Each line has two classes, one for its next use and one for its next write: the signature of the instruction that
//! used it, or wrote it, last, and a little of its history. [`ReuseCounts`] learns for each class after how many
//! accesses to the set such lines come back, and from that the gain of keeping a line of a certain age for each access
//! that it stays. A writeback counts as several misses: as many as [`WritebackAllowance`] can afford. One set in 32 is
//! watched: two [`ShadowSet`]s show the costs under LRU and under trust in the learned worth, and [`Ghosts`] remember
//! the replaced lines. [`LossBudget`] bounds the bank's losses compared to LRU. docs/policy.md describes the cost in
//! hardware, and where the policy fails.
//!
//! 1. The line of the least worth is replaced, the least recent of equals. The line that would be replaced without
//!    learning counts for less the less is proven: for nothing, so that it is replaced, until the shadows have saved
//!    writebacks. That line is the least recent clean one of the three least recent, or the least recent. While misses
//!    are owed in the shadows, or the budget is spent, it is the least recent, as under LRU, and no other line is
//!    replaced.
//! 2. Ages are counted in steps of four accesses to the set, or of sixteen if sets have more than sixteen ways: see
//!    [`reuse_age`].
//! 3. A bank learns from its own sets alone. All numbers are integers except those in [`keep_plan`], whose rounded
//!    operations give the same bits everywhere.

mod allowance;
mod ghosts;
mod keep_plan;
mod loss_budget;
mod reuse;
mod reuse_age;
mod set_lines;
mod shadow_set;

use std::hint::select_unpredictable;

use super::{LineHit, LineMiss, Policy};
use crate::cache::BankGeometry;
use crate::cache::set::{Rank, Set, least_recent, with_vectors};
use allowance::WritebackAllowance;
use ghosts::{Ghosts, ReuseKind};
use loss_budget::{AccessCost, LossBudget, SetMirror};
use reuse::{NOTHING, ReuseCounts, SIGNATURE_BITS, cell, class};
use reuse_age::{AGE_BITS, advancing_below};
use set_lines::{LineState, SetLines};
use shadow_set::{ShadowAccess, ShadowSet};

/// One set of this many is watched.
const WATCHED: usize = 32;

/// Accesses to watched sets between two runs of learning.
const PERIOD: u64 = 384;

/// The policy `worth` for sets of kind `S`, of at most `W` ways.
pub struct Worth<S, const W: usize> {
    geometry: BankGeometry,
    sets: Vec<SetLines<W>>,
    turns: Vec<SetClock>,
    used: ReuseCounts,
    written: ReuseCounts,
    watched: Vec<WatchedSet<S, W>>,
    allowance: WritebackAllowance,
    budget: LossBudget,
    seen: u64,
}

/// The state of a watched set.
struct WatchedSet<S, const W: usize> {
    ghosts: Ghosts,
    lru: ShadowSet<S>,
    /// The lines of the set if the bank always trusted the learned worth.
    own: ShadowSet<S>,
    lines: SetLines<W>,
    /// The lines that the set holds.
    real: SetMirror<W>,
    /// The lines that `own` holds.
    trusting: SetMirror<W>,
}

/// The inputs from which the worth of a line is computed.
struct LinePrice<'a> {
    used: &'a ReuseCounts,
    written: &'a ReuseCounts,
    weight: u32,
    trust: u32,
    /// Least recent lines that are checked for a clean one before anything is proven.
    asked: u32,
}

/// The clock of a set.
#[derive(Clone, Copy, Default)]
struct SetClock {
    /// Accesses modulo 65536: ages need no more.
    clock: u16,
    /// The number of filled ways.
    filled: u16,
}

/// Returns the accesses to a set that make a step, for a kind of set with `ways` ways.
const fn step(ways: usize) -> u16 {
    (ways / 4) as u16
}

/// Returns how many of the least recent ways are checked for a clean one: three of sixteen, as under Protect-13.
const fn asked(ways: u32) -> u32 {
    1 + ways / 8
}

/// An access, with the parts that classes depend on.
#[derive(Clone, Copy)]
struct LineTouch {
    line: u64,
    signature: u8,
    set: usize,
    way: usize,
    is_write: bool,
    is_hit: bool,
    was_dirty: bool,
}

impl<S: Set, const W: usize> Worth<S, W> {
    /// Returns the policy of one bank.
    pub fn new(geometry: BankGeometry) -> Self {
        let sets = geometry.bank_sets() as usize;
        let watched = sets.div_ceil(WATCHED);
        Self {
            geometry,
            sets: vec![SetLines::EMPTY; sets],
            turns: vec![SetClock::default(); sets],
            used: ReuseCounts::new(),
            written: ReuseCounts::new(),
            watched: (0..watched).map(|_| WatchedSet::new()).collect(),
            allowance: WritebackAllowance::default(),
            budget: LossBudget::of(watched * geometry.ways as usize),
            seen: 0,
        }
    }

    #[inline(always)]
    fn touch(&mut self, touch: LineTouch) {
        let (lines, turn) = (&mut self.sets[touch.set], &mut self.turns[touch.set]);
        turn.clock = turn.clock.wrapping_add(1);
        let limit = advancing_below(turn.clock, step(W));
        let before = lines.touched(&touch, limit);
        if is_watched(touch.set) {
            let seen = ShadowAccess { way: touch.way, is_hit: touch.is_hit, was_dirty: touch.was_dirty };
            self.watch(touch.line, touch.signature, touch.is_write, seen, limit);
        } else if touch.is_hit {
            self.used.came_back(before.used);
            self.written.came_back(select_unpredictable(touch.is_write, before.written, NOTHING));
        }
    }

    /// Learns from an access to a watched set. It takes no [`LineTouch`], which the compiler would store in memory for
    /// every access, and most sets are not watched.
    #[inline(never)]
    fn watch(&mut self, line: u64, signature: u8, is_write: bool, seen: ShadowAccess, limit: u16) {
        with_vectors(
            #[inline(always)]
            || self.learn_from(line, signature, is_write, seen, limit),
        );
    }

    #[inline(always)]
    fn learn_from(&mut self, line: u64, signature: u8, is_write: bool, seen: ShadowAccess, limit: u16) {
        let set = self.geometry.set_in_bank(line);
        let WatchedSet { ghosts, lru: shadow, own, lines, real, trusting } = &mut self.watched[set / WATCHED];
        let (ways, print) = (self.geometry.ways, print(line));
        let lru = shadow.access(print, is_write, ways, |_| ways - 1).cost(is_write);
        let price = LinePrice {
            used: &self.used,
            written: &self.written,
            weight: self.allowance.weight(),
            trust: if self.seen < PERIOD { 0 } else { WritebackAllowance::TRUST },
            asked: 1,
        };
        let own = own.access(print, is_write, ways, |set| price.least(set, ways, lines));
        self.allowance.access(lru, own.cost(is_write));
        let paid = |mirror: &mut SetMirror<W>, seen: ShadowAccess| {
            let more_at_risk = mirror.access(print, is_write, seen, shadow);
            AccessCost { cost: seen.cost(is_write), more_at_risk }
        };
        self.budget.access(lru, paid(real, seen), paid(trusting, own));
        let ShadowAccess { way, is_hit, was_dirty } = own;
        lines.touched(&LineTouch { line, signature, set, way, is_write, is_hit, was_dirty }, limit);
        let line = lines.line(way);
        let met = ghosts.meet(print, is_write, class(line.used), class(line.written));
        for (kind, reuse) in [(ReuseKind::Used, &mut self.used), (ReuseKind::Written, &mut self.written)] {
            reuse.came_back(met.again(kind));
            reuse.left(met.lost(kind));
        }
        self.seen += 1;
        if self.seen.is_multiple_of(PERIOD) {
            self.used.learn();
            self.written.learn();
        }
    }
}

impl<S: Set, const W: usize> WatchedSet<S, W> {
    fn new() -> Self {
        let (lru, own, real, trusting) = (ShadowSet::EMPTY, ShadowSet::EMPTY, SetMirror::EMPTY, SetMirror::EMPTY);
        Self { ghosts: Ghosts::of(W), lru, own, lines: SetLines::EMPTY, real, trusting }
    }
}

impl<const W: usize> SetLines<W> {
    /// Ages below `limit` advance, and the line in `way` gets its state after an access. Returns its state before.
    #[inline(always)]
    fn touched(&mut self, touch: &LineTouch, limit: u16) -> LineState {
        let before = if touch.is_hit { self.line(touch.way).older(limit) } else { LineState::NEW };
        let written = cell(written_class(touch, before), 0);
        let line = LineState {
            used: cell(used_class(touch, before), 0),
            written: select_unpredictable(touch.is_write, written, before.written),
        };
        self.grow_older(limit, touch.way, line);
        before
    }
}

impl LinePrice<'_> {
    /// Returns the rank of the line of the least worth in a set of `ways` ways, the least recent of equals.
    #[inline(always)]
    fn least<const W: usize>(&self, set: &impl Set, ways: u32, lines: &SetLines<W>) -> Rank {
        let own = least_recent(set.clean(ways - self.asked..ways)).unwrap_or(ways - 1);
        match ways as usize {
            _ if self.trust == 0 => own,
            ways if ways == W => self.least_but(own, W as u32, set, lines),
            _ => self.least_but(own, ways, set, lines),
        }
    }

    /// Returns the rank of the least worth; the worth at `own` is scaled by the trust. No branch depends on a line's
    /// state, which is unpredictable.
    #[inline(always)]
    fn least_but<const W: usize>(&self, own: Rank, ways: u32, set: &impl Set, lines: &SetLines<W>) -> Rank {
        let worth = |rank| {
            let line = lines.line(set.way(rank) % W);
            self.used.worth(line.used) * WritebackAllowance::ONE + self.written.worth(line.written) * self.weight
        };
        let place = |rank| W as u32 - 1 - rank;
        let least = (0..ways).map(|rank| worth(rank) * W as u32 + place(rank)).min();
        let own = worth(own) * self.trust / WritebackAllowance::TRUST * W as u32 + place(own);
        place(least.map_or(own, |least| least.min(own)) % W as u32)
    }
}

impl<S: Set, const W: usize> Policy for Worth<S, W> {
    #[inline(always)]
    fn victim<T: Set>(&mut self, set: &T, miss: LineMiss) -> Rank {
        let at = self.geometry.set_in_bank(miss.line);
        let (last, turn) = (self.geometry.ways - 1, &mut self.turns[at]);
        if u32::from(turn.filled) <= last {
            turn.filled += 1;
            return last;
        }
        let lines = &self.sets[at];
        let is_held = self.budget.is_spent() || self.allowance.owes();
        let price = LinePrice {
            used: &self.used,
            written: &self.written,
            weight: self.allowance.weight(),
            trust: if is_held { 0 } else { self.allowance.trust() },
            asked: if is_held { 1 } else { asked(last + 1) },
        };
        let least = price.least(set, last + 1, lines);
        if !is_watched(at) {
            let line = lines.line(set.way(least));
            self.used.left(line.used);
            self.written.left(line.written);
        }
        least
    }

    #[inline(always)]
    fn hit(&mut self, hit: LineHit) {
        let LineHit { line, signature, way, is_write, was_dirty, .. } = hit;
        let set = self.geometry.set_in_bank(line);
        self.touch(LineTouch { line, signature, set, way, is_write, is_hit: true, was_dirty });
    }

    #[inline(always)]
    fn filled(&mut self, way: usize, miss: LineMiss) {
        let LineMiss { line, signature, is_write, .. } = miss;
        let set = self.geometry.set_in_bank(line);
        self.touch(LineTouch { line, signature, set, way, is_write, is_hit: false, was_dirty: false });
    }
}

/// Returns true if a set is watched: in each group of [`WATCHED`] sets the next one, so that every place in a page has
/// its share.
#[inline]
fn is_watched(set: usize) -> bool {
    set % WATCHED == set / WATCHED % WATCHED
}

/// Returns the hash by which a line is known after it was replaced.
#[inline]
fn print(line: u64) -> u16 {
    (line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16
}

/// Returns the class of a signature and two bits of history.
#[inline]
fn signed(signature: u8, story: u16) -> u16 {
    u16::from(signature >> (8 - SIGNATURE_BITS)) << 2 | story
}

/// Returns the class for the next use: the history is whether a read has hit the line, and whether the line is dirty.
#[inline]
fn used_class(touch: &LineTouch, before: LineState) -> u16 {
    let was_found = class(before.used) & 2 != 0;
    let is_found = was_found || touch.is_hit && !touch.is_write;
    signed(touch.signature, u16::from(is_found) << 1 | u16::from(touch.was_dirty || touch.is_write))
}

/// Returns the class for the next write: the history is the time since the previous write, in four steps.
#[inline]
fn written_class(touch: &LineTouch, before: LineState) -> u16 {
    signed(touch.signature, BEFORE[usize::from(reuse::age(before.written))])
}

/// The step of each age of a write: the steps begin after 4, 16 and 96 steps of age.
const BEFORE: [u16; 1 << AGE_BITS] = {
    let (mut steps, mut age) = ([0; 1 << AGE_BITS], 0);
    while age < steps.len() {
        steps[age] = (age >= 4) as u16 + (age >= 11) as u16 + (age >= 18) as u16;
        age += 1;
    }
    steps
};
