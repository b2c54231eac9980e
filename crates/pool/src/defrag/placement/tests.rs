//! Layouts of a few things, and of any.

#![allow(clippy::single_range_in_vec_init)]

use proptest::prelude::*;

use super::*;

fn things(shape: &[(u64, u64)]) -> Vec<PlacedItem> {
    shape.iter().map(|(position, size)| PlacedItem { position: *position, size: *size }).collect()
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
        let things: Vec<PlacedItem> = sizes.into_iter().filter(|(_, at)| used.insert(*at)).map(|(size, position)| PlacedItem { position, size }).collect();
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
