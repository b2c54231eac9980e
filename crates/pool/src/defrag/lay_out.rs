//! Where things go: a pure puzzle, of pages in chunks and of chunks in a pool alike.
//!
//! Things keep the order in which they lie, so that what lies well stays. A hole is filled with the largest thing
//! behind it that fits whole; only where none does, what follows moves up. Nothing is cut at the end of a stretch while
//! something else fits there, or places to spare can be left empty.

use std::collections::BTreeSet;
use std::ops::Range;

/// Something to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thing {
    /// Where it starts now.
    pub position: u64,
    /// Places it takes.
    pub size: u64,
}

/// Where each of `things` goes, in their order. `stretches` are the places there are, ascending and apart; `reserve` of
/// them stay empty. `None` if there are not enough.
pub(super) fn lay_out(things: &[Thing], stretches: &[Range<u64>], reserve: u64) -> Option<Vec<Vec<Range<u64>>>> {
    let places: u64 = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
    let wanted: u64 = things.iter().map(|thing| thing.size).sum();
    let spare = places.checked_sub(wanted)?.checked_sub(reserve)?;
    let numbered = || things.iter().enumerate();
    let mut board = Board {
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

struct Board<'a> {
    things: &'a [Thing],
    stretches: &'a [Range<u64>],
    stretch: usize,
    at: u64,
    /// Places that may stay empty.
    spare: u64,
    by_position: BTreeSet<(u64, usize)>,
    by_size: BTreeSet<(u64, u64, usize)>,
    placed: Vec<Vec<Range<u64>>>,
}

impl Board<'_> {
    /// Places `next`, which starts at `position` now and is the first that is not placed, or something better here.
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

    /// The largest thing that is not placed and fits `places`.
    fn largest_within(&self, places: u64) -> Option<usize> {
        self.by_size.range(..=(places, u64::MAX, usize::MAX)).next_back().map(|(_, _, number)| *number)
    }

    fn leave_stretch(&mut self) {
        self.stretch += 1;
        self.at = self.stretches[self.stretch].start;
    }

    fn place(&mut self, number: usize) {
        let Thing { position, mut size } = self.things[number];
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

    /// In how many parts something of `size` lies from `stretch` on, of which `rest` places are left, or all.
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
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn things(shape: &[(u64, u64)]) -> Vec<Thing> {
        shape.iter().map(|(position, size)| Thing { position: *position, size: *size }).collect()
    }

    #[test]
    fn what_lies_well_stays_and_holes_are_filled_from_behind() {
        let stay = lay_out(&things(&[(0, 3), (3, 2), (5, 1)]), &[0..10], 0).unwrap();
        assert_eq!(stay, [vec![0..3], vec![3..5], vec![5..6]]);
        // The hole of two is filled by the thing of two, not by the one of one, and nothing else moves.
        let filled = lay_out(&things(&[(0, 3), (5, 3), (8, 1), (9, 2)]), &[0..20], 0).unwrap();
        assert_eq!(filled, [vec![0..3], vec![5..8], vec![8..9], vec![3..5]]);
    }

    #[test]
    fn nothing_is_cut_where_places_can_be_spared() {
        assert_eq!(lay_out(&things(&[(0, 3), (3, 3)]), &[0..5, 5..10], 0).unwrap(), [vec![0..3], vec![5..8]]);
        assert_eq!(lay_out(&things(&[(0, 3), (3, 3)]), &[0..5, 5..10], 3).unwrap(), [vec![0..3], vec![3..5, 5..6]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Everything is placed whole and once, within the stretches.
        #[test]
        fn a_layout_is_whole_and_names_no_place_twice(sizes in prop::collection::vec((1u64..9, 0u64..60), 0..12), lens in prop::collection::vec((1u64..20, 0u64..3), 1..6)) {
            let mut end = 0;
            let stretches: Vec<Range<u64>> = lens.into_iter().map(|(len, gap)| { end += gap + len; end - len..end }).collect();
            let mut used = BTreeSet::new();
            let things: Vec<Thing> = sizes.into_iter().filter(|(_, at)| used.insert(*at)).map(|(size, position)| Thing { position, size }).collect();
            let Some(placed) = lay_out(&things, &stretches, 0) else { return Ok(()) };
            let mut taken = BTreeSet::new();
            for (thing, ranges) in things.iter().zip(&placed) {
                prop_assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), thing.size);
                for place in ranges.iter().cloned().flatten() {
                    prop_assert!(taken.insert(place) && stretches.iter().any(|stretch| stretch.contains(&place)));
                }
            }
        }
    }
}
