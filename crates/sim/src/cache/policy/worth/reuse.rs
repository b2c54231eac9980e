//! How soon lines of a class come back, and what keeping one is worth.
//!
//! For each class and each age: how many lines came back at it, and how many were lost sight of. The share of those
//! still there that come back gives the chances of what happens to a line of any age. Its worth is the best that any plan
//! "keep it until such an age" promises: what comes back, over the accesses that it takes a way for (Gittins' index).
//! So a line of a class that comes back late is worth more the older it is, and one whose time is past is worth nothing.

use super::age::{AGE_BITS, AGES, EDGES, NEVER};
use crate::cache::set::with_vectors;

/// A class and an age, which is below it.
pub type Cell = u16;

/// A signature, and two bits beside it.
pub const CLASSES: usize = 4 << SIGNATURE_BITS;

/// Bits of a signature that classes tell apart: the highest.
pub const SIGNATURE_BITS: u32 = 7;

/// Cells of a class, some of which are of no age.
const ROW: usize = 1 << AGE_BITS;
const CELLS: usize = CLASSES * ROW;

/// That of what cannot come back: nothing is learned of it, and it is worth nothing.
pub const NOTHING: Cell = NEVER;

/// What one line counts, so that counts fade smoothly.
const LINE: u32 = 16;

/// A class is learned anew when so many of its lines are new.
const FRESH: u64 = 8;

/// With each learning counts fade by this power of two.
const FADE: u32 = 5;

/// Lines of all classes together that every class is taken to have had besides its own.
const OTHERS: u64 = 8;

/// A chance of one.
const SURE: u64 = 1 << 20;

/// Worth is kept in parts of so many to the access.
const PARTS: u64 = 1 << 16;

/// What all lines are worth before anything is learned.
const AT_FIRST: u16 = 655;

/// A cell.
#[inline]
pub fn cell(class: u16, age: u16) -> Cell {
    class << AGE_BITS | age
}

/// The age of a cell.
#[inline]
pub const fn age(cell: Cell) -> u16 {
    cell % ROW as u16
}

/// Its class.
#[inline]
pub fn class(cell: Cell) -> u16 {
    cell >> AGE_BITS
}

/// How many lines of a class there were, by age.
type Row = [u32; ROW];

/// What came back and what was lost, by class.
pub struct Reuse {
    back: Box<[u32; CELLS]>,
    lost: Box<[u32; CELLS]>,
    /// What was counted of each class when it was learned last, faded.
    known: Vec<u64>,
    worth: Box<[u16; CELLS]>,
}

impl Reuse {
    /// Of nothing yet.
    pub fn new() -> Self {
        let at = |at: usize| if at % ROW < AGES { AT_FIRST } else { 0 };
        let none = || Box::new([0; CELLS]);
        Self { back: none(), lost: none(), known: vec![0; CLASSES], worth: Box::new(std::array::from_fn(at)) }
    }

    /// A line came back.
    #[inline]
    pub fn came_back(&mut self, cell: Cell) {
        count(&mut self.back, cell);
    }

    /// A line was lost sight of.
    #[inline]
    pub fn left(&mut self, cell: Cell) {
        count(&mut self.lost, cell);
    }

    /// What a line is worth.
    #[inline]
    pub fn worth(&self, cell: Cell) -> u32 {
        self.worth[usize::from(cell) % CELLS].into()
    }

    /// Makes what was counted into what lines are worth, of the classes of which there are enough new lines; then what
    /// was counted of those counts for less.
    pub fn learn(&mut self) {
        with_vectors(
            #[inline(always)]
            || self.learn_in_place(),
        );
    }

    #[inline(always)]
    fn learn_in_place(&mut self) {
        let (back, lost) = (self.back.as_chunks_mut::<ROW>().0, self.lost.as_chunks_mut::<ROW>().0);
        let common = chances(&sum(back), &sum(lost), &[0; AGES]);
        let rows = back.iter_mut().zip(lost).zip(&mut self.known);
        for (((back, lost), known), worth) in rows.zip(self.worth.as_chunks_mut::<ROW>().0) {
            if total(back, lost) >= *known + FRESH * u64::from(LINE) {
                worth[..AGES].copy_from_slice(&best_plans(&chances(back, lost, &common)));
                back.iter_mut().chain(&mut *lost).for_each(|count| *count -= *count >> FADE);
                *known = total(back, lost);
            }
        }
    }
}

#[inline]
fn count(rows: &mut [u32; CELLS], cell: Cell) {
    let count = &mut rows[usize::from(cell) % CELLS];
    *count = count.saturating_add(LINE);
}

#[inline(always)]
fn total(back: &Row, lost: &Row) -> u64 {
    let both = |at: usize| u64::from(back[at]) + u64::from(lost[at]);
    (0..AGES).map(both).sum()
}

#[inline(always)]
fn sum(rows: &[Row]) -> Row {
    let mut sum = [0_u32; ROW];
    for row in rows {
        sum.iter_mut().zip(row).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
    }
    sum
}

/// For each age the chance that a line which is there when it begins comes back within it. Who is lost within an age was
/// there for half of it. `common` is the chance for all classes.
#[inline(always)]
fn chances(back: &Row, lost: &Row, common: &[u64; AGES]) -> [u64; AGES] {
    let (mut chances, mut later) = ([0; AGES], 0);
    let others = OTHERS * u64::from(LINE);
    for age in (0..AGES).rev() {
        let (back, lost) = (u64::from(back[age]), u64::from(lost[age]));
        let there = later + back + lost / 2;
        chances[age] = (back * SURE + others * common[age]) / (there + others);
        later += back + lost;
    }
    chances
}

/// For each age what a line of it is worth: the steepest way from there to a later point of what is gained over what it
/// costs. Only the upper hull of the later points can be reached by such a way.
#[inline(always)]
fn best_plans(chances: &[u64; AGES]) -> [u16; AGES] {
    let (mut points, mut there) = ([(0, 0); AGES + 1], SURE);
    for age in 0..AGES {
        let back = there * chances[age] / SURE;
        there -= back;
        let (cost, gain) = points[age];
        let accesses = u64::from(EDGES[age + 1] - EDGES[age]) * 4 * (back / 2 + there);
        points[age + 1] = (cost + accesses + 1, gain + back);
    }
    let steeper = |from: (u64, u64), one: (u64, u64), other: (u64, u64)| {
        (one.1 - from.1) * (other.0 - from.0) > (other.1 - from.1) * (one.0 - from.0)
    };
    let (mut worth, mut hull, mut last) = ([0; AGES], [(0, 0); AGES + 1], 0);
    hull[0] = points[AGES];
    for age in (0..AGES).rev() {
        let from = points[age];
        while last > 0 && !steeper(from, hull[last], hull[last - 1]) {
            last -= 1;
        }
        let (cost, gain) = (hull[last].0 - from.0, hull[last].1 - from.1);
        worth[age] = (gain * PARTS / cost) as u16;
        last += 1;
        hull[last] = from;
    }
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of four lines come back at age 9, after ten or eleven steps, one is lost at the end: the older, the more
    /// they are worth, until then; a moment later next to nothing.
    #[test]
    fn what_comes_back_late_is_worth_more_when_it_is_old() {
        let mut reuse = Reuse::new();
        for _ in 0..1000 {
            (0..3).for_each(|_| reuse.came_back(cell(0, 9)));
            reuse.left(cell(0, 19));
        }
        reuse.learn();
        let worth: Vec<u32> = (0..=10).map(|age| reuse.worth(cell(0, age))).collect();
        assert!(worth[..=9].is_sorted(), "{worth:?}");
        assert!(worth[9] > 5 * worth[0] && worth[10] * 50 < worth[9], "{worth:?}");
    }

    /// Worked out: all of 16 parts come back at age 0 (four accesses, half of that on average) with the chance of the
    /// class and of eight others like it: 16 / 144 in common, then (16 + 128 / 9) / 144.
    #[test]
    fn chances_lean_on_those_of_all_classes() {
        let (mut back, lost) = ([0; ROW], [0; ROW]);
        back[0] = LINE;
        let common = chances(&back, &lost, &[0; AGES]);
        assert_eq!((common[0], common[1]), (SURE / 9, 0));
        assert_eq!(chances(&back, &lost, &common)[0], (16 * SURE + 128 * (SURE / 9)) / 144);
    }

    #[test]
    fn counts_fade_and_what_was_learned_stays() {
        let mut reuse = Reuse::new();
        (0..64).for_each(|_| reuse.came_back(cell(1, 0)));
        reuse.learn();
        assert_eq!(reuse.back[ROW], 64 * LINE - 64 * LINE / 32);
        assert!(reuse.worth(cell(1, 0)) > reuse.worth(cell(0, 0)), "the other class has seen nothing");
        assert_eq!(reuse.worth(NOTHING), 0);
    }
}
