//! The states of the lines in a set.

use super::reuse::{AgeCell, NOTHING, age};
use super::reuse_age::NEVER;

/// The states of a set's lines, by way, with as many ways as this kind of set may have.
#[derive(Clone)]
#[repr(align(64))]
pub struct SetLines<const W: usize> {
    used: [AgeCell; W],
    written: [AgeCell; W],
}

/// The state of a line.
#[derive(Clone, Copy)]
pub struct LineState {
    /// The class for its next use, and the age of its last use.
    pub used: AgeCell,
    /// The class and age for its next write; [`NOTHING`] if the line is clean.
    pub written: AgeCell,
}

impl LineState {
    /// The state of a line before its first access.
    pub const NEW: Self = Self { used: 0, written: NOTHING };

    /// Returns the state with ages below `limit` advanced.
    #[inline]
    pub fn older(self, limit: u16) -> Self {
        Self { used: older(self.used, limit), written: older(self.written, limit) }
    }
}

impl<const W: usize> SetLines<W> {
    /// The states of an empty set.
    pub const EMPTY: Self = Self { used: [NOTHING; W], written: [NOTHING; W] };

    /// Returns the line in `way`.
    #[inline]
    pub fn line(&self, way: usize) -> LineState {
        LineState { used: self.used[way % W], written: self.written[way % W] }
    }

    /// Advances ages below `limit`, and puts a line in `way`. In a narrow set all ages are visited, even though three
    /// of four times none advances: the branch would be unpredictable.
    #[inline(always)]
    pub fn grow_older(&mut self, limit: u16, way: usize, line: LineState) {
        for (cells, put) in [(&mut self.used, line.used), (&mut self.written, line.written)] {
            if W <= NARROW || limit > 0 {
                for cell in &mut *cells {
                    *cell = older(*cell, limit);
                }
            }
            cells[way % W] = put;
        }
    }
}

/// Ways of a narrow set.
const NARROW: usize = 16;

/// Advances an age below `limit`.
#[inline(always)]
fn older(cell: AgeCell, limit: u16) -> AgeCell {
    cell + u16::from(age(cell) < limit)
}

const _: () = assert!(age(NOTHING) == NEVER, "it does not grow older");
