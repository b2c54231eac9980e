//! What is known of the lines that are in a set.

use super::reuse::{AgeCell, NOTHING, age};
use super::reuse_age::NEVER;

/// Of as many ways as this kind of set may have, by way: see [`LineState`].
#[derive(Clone)]
#[repr(align(64))]
pub struct SetLines<const W: usize> {
    used: [AgeCell; W],
    written: [AgeCell; W],
}

/// What is known of a line.
#[derive(Clone, Copy)]
pub struct LineState {
    /// What it is taken for where its next use is concerned, and how long ago it was used.
    pub used: AgeCell,
    /// The same of its next write; [`NOTHING`] if it is clean.
    pub written: AgeCell,
}

impl LineState {
    /// One that comes in.
    pub const NEW: Self = Self { used: 0, written: NOTHING };

    /// The same line, with ages below `limit` gone on to the next.
    #[inline]
    pub fn older(self, limit: u16) -> Self {
        Self { used: older(self.used, limit), written: older(self.written, limit) }
    }
}

impl<const W: usize> SetLines<W> {
    /// No way is filled.
    pub const EMPTY: Self = Self { used: [NOTHING; W], written: [NOTHING; W] };

    /// The line in `way`.
    #[inline]
    pub fn line(&self, way: usize) -> LineState {
        LineState { used: self.used[way % W], written: self.written[way % W] }
    }

    /// Ages below `limit` go on to the next, and a line is put in `way`. In all ways of a narrow set, though three of four
    /// times none goes on: nobody can foretell when.
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

/// With an age below `limit` it goes on to the next.
#[inline(always)]
fn older(cell: AgeCell, limit: u16) -> AgeCell {
    cell + u16::from(age(cell) < limit)
}

const _: () = assert!(age(NOTHING) == NEVER, "it does not grow older");
