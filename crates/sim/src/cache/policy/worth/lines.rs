//! What is known of the lines that are in a set.

use super::AGE_MAX;
use super::reuse::NO_CLASS;

/// Of as many ways as this kind of set may have, by way: see [`Line`].
#[derive(Clone)]
#[repr(align(64))]
pub struct Lines<const W: usize> {
    used_age: [u8; W],
    written_age: [u8; W],
    used_class: [u8; W],
    written_class: [u8; W],
}

/// What is known of a line.
#[derive(Clone, Copy)]
pub struct Line {
    /// Since it was used.
    pub used_age: u8,
    /// Since it was written; [`AGE_MAX`] if it was not.
    pub written_age: u8,
    /// What it is taken for where its next use is concerned.
    pub used_class: u8,
    /// The same for its next write; [`NO_CLASS`] if it is clean.
    pub written_class: u8,
}

impl Line {
    /// One that comes in.
    pub const NEW: Self = Self { used_age: 0, written_age: AGE_MAX, used_class: 0, written_class: NO_CLASS };

    /// The same line so many steps later.
    #[inline]
    pub fn older_by(self, steps: u8) -> Self {
        let (used_age, written_age) = (self.used_age.saturating_add(steps), self.written_age.saturating_add(steps));
        Self { used_age, written_age, ..self }
    }
}

impl<const W: usize> Lines<W> {
    /// No way is filled.
    pub const EMPTY: Self =
        Self { used_age: [0; W], written_age: [AGE_MAX; W], used_class: [0; W], written_class: [NO_CLASS; W] };

    /// The line in `way`.
    #[inline]
    pub fn line(&self, way: usize) -> Line {
        Line {
            used_age: self.used_age[way],
            written_age: self.written_age[way],
            used_class: self.used_class[way],
            written_class: self.written_class[way],
        }
    }

    /// Puts a line there.
    #[inline]
    pub fn put(&mut self, way: usize, line: Line) {
        self.used_age[way] = line.used_age;
        self.written_age[way] = line.written_age;
        self.used_class[way] = line.used_class;
        self.written_class[way] = line.written_class;
    }

    /// All grow older by so many steps.
    #[inline]
    pub fn grow_older(&mut self, steps: u8) {
        self.used_age = self.used_age.map(|age| age.saturating_add(steps));
        self.written_age = self.written_age.map(|age| age.saturating_add(steps));
    }
}
