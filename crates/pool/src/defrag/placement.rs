//! The placement of items: a pure function, used for pages in chunks and for chunks in a pool.
//!
//! Items keep their order, so that an item in a good place stays. A hole is filled with the largest later item that
//! fits whole; only if none fits, the next item moves up. An item is cut at the end of a stretch only if no other item
//! fits there and no places can be left empty.

use std::collections::BTreeSet;
use std::ops::Range;

/// An item to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedItem {
    /// The current start.
    pub position: u64,
    /// The number of places that it takes.
    pub size: u64,
}

/// Returns the places of each of `things`, in their order, or `None` if there are too few. `stretches` are the
/// available places, ascending and apart; `reserve` of them stay empty.
pub(super) fn lay_out(things: &[PlacedItem], stretches: &[Range<u64>], reserve: u64) -> Option<Vec<Vec<Range<u64>>>> {
    let places: u64 = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
    let wanted: u64 = things.iter().map(|thing| thing.size).sum();
    let spare = places.checked_sub(wanted)?.checked_sub(reserve)?;
    let numbered = || things.iter().enumerate();
    let mut board = PlacementState {
        things,
        stretches,
        stretch: 0,
        at: stretches.first().map_or(0, |stretch| stretch.start),
        spare,
        by_position: numbered().map(|(number, thing)| (thing.position, number)).collect(),
        by_size: numbered().map(|(number, thing)| (thing.size, thing.position, number)).collect(),
        placed: vec![Vec::new(); things.len()],
    };
    while let Some((position, next)) = board.by_position.first().copied() {
        board.place_one(position, next);
    }
    Some(board.placed)
}

struct PlacementState<'a> {
    things: &'a [PlacedItem],
    stretches: &'a [Range<u64>],
    stretch: usize,
    at: u64,
    /// The number of places that may stay empty.
    spare: u64,
    by_position: BTreeSet<(u64, usize)>,
    by_size: BTreeSet<(u64, u64, usize)>,
    placed: Vec<Vec<Range<u64>>>,
}

impl PlacementState<'_> {
    /// Places `next`, the first item that is not placed, which starts at `position` now, or a better item in its place.
    fn place_one(&mut self, position: u64, next: usize) {
        let rest = self.stretches[self.stretch].end - self.at;
        let hole = position.saturating_sub(self.at).min(rest);
        let size = self.things[next].size;
        let filling = self.largest_within(hole);
        if rest == 0 {
            self.leave_stretch();
        } else if let Some(filling) = filling {
            self.place(filling);
        } else if size <= rest {
            self.place(next);
        } else if let Some(filling) = self.largest_within(rest) {
            self.place(filling);
        } else if self.spare >= rest && self.cuts(size, self.stretch + 1, 0) < self.cuts(size, self.stretch, rest) {
            self.spare -= rest;
            self.leave_stretch();
        } else {
            self.place(next);
        }
    }

    /// Returns the largest item that is not placed and fits into `places`.
    fn largest_within(&self, places: u64) -> Option<usize> {
        self.by_size.range(..=(places, u64::MAX, usize::MAX)).next_back().map(|(_, _, number)| *number)
    }

    fn leave_stretch(&mut self) {
        self.stretch += 1;
        self.at = self.stretches[self.stretch].start;
    }

    fn place(&mut self, number: usize) {
        let PlacedItem { position, mut size } = self.things[number];
        self.by_position.remove(&(position, number));
        self.by_size.remove(&(size, position, number));
        while size > 0 {
            let end = self.stretches[self.stretch].end.min(self.at + size);
            if self.at == end {
                self.leave_stretch();
                continue;
            }
            self.placed[number].push(self.at..end);
            size -= end - self.at;
            self.at = end;
        }
    }

    /// Returns the number of parts of an item of `size` placed from `stretch` on, of which `rest` places are left; 0
    /// means all of them.
    fn cuts(&self, size: u64, stretch: usize, rest: u64) -> u64 {
        let (mut left, mut parts) = (size.saturating_sub(rest), u64::from(rest > 0));
        for next in &self.stretches[(stretch + usize::from(rest > 0)).min(self.stretches.len())..] {
            if left == 0 {
                return parts;
            }
            left = left.saturating_sub(next.end - next.start);
            parts += 1;
        }
        if left == 0 { parts } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests;
