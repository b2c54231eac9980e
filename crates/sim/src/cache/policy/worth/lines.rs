//! What is known of the lines that are in a set.

use super::age::NEVER;
use super::reuse::{Cell, NOTHING, age};

/// Of as many ways as this kind of set may have, by way: see [`Line`].
#[derive(Clone)]
#[repr(align(64))]
pub struct Lines<const W: usize> {
    used: [Cell; W],
    written: [Cell; W],
}

/// What is known of a line.
#[derive(Clone, Copy)]
pub struct Line {
    /// What it is taken for where its next use is concerned, and how long ago it was used.
    pub used: Cell,
    /// The same of its next write; [`NOTHING`] if it is clean.
    pub written: Cell,
}

impl Line {
    /// One that comes in.
    pub const NEW: Self = Self { used: 0, written: NOTHING };
}

impl<const W: usize> Lines<W> {
    /// No way is filled.
    pub const EMPTY: Self = Self { used: [NOTHING; W], written: [NOTHING; W] };

    /// The line in `way`.
    #[inline]
    pub fn line(&self, way: usize) -> Line {
        Line { used: self.used[way], written: self.written[way] }
    }

    /// Puts a line there.
    #[inline]
    pub fn put(&mut self, way: usize, line: Line) {
        (self.used[way], self.written[way]) = (line.used, line.written);
    }

    /// Ages below `limit` go on to the next.
    #[inline]
    pub fn grow_older(&mut self, limit: u16) {
        let older = |cell: Cell| cell + u16::from(age(cell) < limit);
        self.used = self.used.map(older);
        self.written = self.written.map(older);
    }
}

const _: () = assert!(age(NOTHING) == NEVER, "it does not grow older");
