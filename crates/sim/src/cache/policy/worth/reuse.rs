//! How soon lines of a class come back, and the worth of keeping one.
//!
//! For each class and each age, the counts are the lines that came back at it and the lines that were lost. From these
//! [`keep_plan`] computes the worth of a line of any age.

use super::keep_plan::{self, AgeTable, LANES};
use super::reuse_age::{AGE_BITS, AGES, NEVER};
use crate::cache::set::with_vectors;

/// A class, and an age in the low bits.
pub type AgeCell = u16;

/// The number of classes: a signature and two bits of history.
pub const CLASSES: usize = 4 << SIGNATURE_BITS;

/// Bits of a signature that distinguish classes: the highest.
pub const SIGNATURE_BITS: u32 = 7;

/// Cells of a class, some of which have no age.
const ROW: usize = 1 << AGE_BITS;
const CELLS: usize = CLASSES * ROW;

/// The cell of a line that cannot come back: nothing is learned of it, and it is worth nothing.
pub const NOTHING: AgeCell = NEVER;

/// The count of one line: more than one, so that counts fade smoothly.
const LINE: u32 = 16;

/// New lines after which a class is learned again.
const FRESH: u64 = 16;

/// The power of two by which counts fade at each learning.
const FADE: u32 = 4;

/// Lines of the average of all classes that every class is assumed to have had besides its own.
const OTHERS: u32 = 8;

/// The worth of every line before anything is learned.
const AT_FIRST: u16 = 655;

/// Returns the cell of a class and an age.
#[inline]
pub fn cell(class: u16, age: u16) -> AgeCell {
    class << AGE_BITS | age
}

/// Returns the age of a cell.
#[inline]
pub const fn age(cell: AgeCell) -> u16 {
    cell % ROW as u16
}

/// Returns the class of a cell.
#[inline]
pub fn class(cell: AgeCell) -> u16 {
    cell >> AGE_BITS
}

/// The lines of a class by age.
type ClassRow = [u32; ROW];

/// The lines that came back and that were lost, by class, and the learned worth.
pub struct ReuseCounts {
    back: Box<[u32; CELLS]>,
    lost: Box<[u32; CELLS]>,
    /// The faded count of each class after its last learning.
    known: Vec<u64>,
    worth: Box<[u16; CELLS]>,
}

impl ReuseCounts {
    /// Returns empty counts.
    pub fn new() -> Self {
        let at = |at: usize| if at % ROW < AGES { AT_FIRST } else { 0 };
        let none = || Box::new([0; CELLS]);
        Self { back: none(), lost: none(), known: vec![0; CLASSES], worth: Box::new(std::array::from_fn(at)) }
    }

    /// Counts a line that came back.
    #[inline]
    pub fn came_back(&mut self, cell: AgeCell) {
        count(&mut self.back, cell);
    }

    /// Counts a line that was lost.
    #[inline]
    pub fn left(&mut self, cell: AgeCell) {
        count(&mut self.lost, cell);
    }

    /// Returns the worth of a line.
    #[inline]
    pub fn worth(&self, cell: AgeCell) -> u32 {
        self.worth[usize::from(cell) % CELLS].into()
    }

    /// Computes the worth of lines from the counts, for the classes with enough new lines; then their counts fade.
    pub fn learn(&mut self) {
        with_vectors(
            #[inline(always)]
            || self.learn_in_place(),
        );
    }

    #[inline(always)]
    fn learn_in_place(&mut self) {
        let (back, lost) = (self.back.as_chunks_mut::<ROW>().0, self.lost.as_chunks_mut::<ROW>().0);
        let others = (OTHERS * LINE) as f32;
        let common = {
            let (back, lost) = (across([&sum(back); LANES]), across([&sum(lost); LANES]));
            keep_plan::chances(&back, &lost, others, &keep_plan::ZERO)
        };
        let known = &mut self.known;
        let is_fresh = |class: usize| total(&back[class], &lost[class]) >= known[class] + FRESH * u64::from(LINE);
        // A collected iterator is compiled separately, and so without vectors.
        let mut fresh = Vec::with_capacity(CLASSES);
        for class in 0..CLASSES {
            if is_fresh(class) {
                fresh.push(class);
            }
        }
        let worth = self.worth.as_chunks_mut::<ROW>().0;
        for classes in fresh.chunks(LANES) {
            let of = |lane: usize| classes[lane.min(classes.len() - 1)];
            let of: [usize; LANES] = std::array::from_fn(of);
            let (came_back, left) = (across(of.map(|class| &back[class])), across(of.map(|class| &lost[class])));
            let best = keep_plan::best(&keep_plan::chances(&came_back, &left, others, &common));
            for (lane, class) in classes.iter().enumerate() {
                (0..AGES).for_each(|age| worth[*class][age] = best[age][lane]);
                let (back, lost) = (&mut back[*class], &mut lost[*class]);
                back.iter_mut().chain(&mut *lost).for_each(|count| *count -= *count >> FADE);
                known[*class] = total(back, lost);
            }
        }
    }
}

#[inline]
fn count(rows: &mut [u32; CELLS], cell: AgeCell) {
    let count = &mut rows[usize::from(cell) % CELLS];
    *count = count.saturating_add(LINE);
}

#[inline(always)]
fn total(back: &ClassRow, lost: &ClassRow) -> u64 {
    (0..AGES).map(|age| u64::from(back[age]) + u64::from(lost[age])).sum()
}

#[inline(always)]
fn sum(rows: &[ClassRow]) -> ClassRow {
    let mut sum = [0_u32; ROW];
    for row in rows {
        sum.iter_mut().zip(row).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
    }
    sum
}

/// Returns a table with a lane for each row.
#[inline(always)]
fn across(rows: [&ClassRow; LANES]) -> AgeTable {
    let mut table = keep_plan::ZERO;
    for (lane, row) in rows.into_iter().enumerate() {
        (0..AGES).for_each(|age| table[age][lane] = row[age] as f32);
    }
    table
}

#[cfg(test)]
mod tests;
