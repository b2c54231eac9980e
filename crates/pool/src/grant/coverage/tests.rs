//! G2: freed pages are sorted by whether a grant is on them.

use super::*;
use proptest::prelude::*;

fn normal(page: u64, pages: u32) -> Extent {
    Extent { page, pages, role: Role::DATA, zone: Zone::Normal }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// G2: against a page-by-page reference, nothing is lost, doubled or put on the wrong side.
    #[test]
    fn g2_pages_are_sorted_one_by_one(granted in prop::collection::vec((0u64..60, 1u32..9), 0..6), freed in (0u64..60, 1u32..30)) {
        let granted: Vec<Extent> = granted.into_iter().map(|(page, pages)| normal(page, pages)).collect();
        let under = |page| granted.iter().any(|run| (run.page..run.end()).contains(&page));
        let coverage = Coverage::of(&granted);
        let freed = normal(freed.0, freed.1);
        let sorted = coverage.sort(&[freed]);
        let pages = |side: &[Extent]| side.iter().flat_map(|run| run.page..run.end()).collect::<Vec<_>>();
        let expected = |side| (freed.page..freed.end()).filter(|page| under(*page) == side).collect::<Vec<_>>();
        prop_assert_eq!(pages(&sorted.held), expected(true));
        prop_assert_eq!(pages(&sorted.free), expected(false));
        prop_assert_eq!(coverage.touches(freed), !sorted.held.is_empty());
        prop_assert_eq!(coverage.contains(&Coverage::of(&[freed])), sorted.free.is_empty());
        prop_assert_eq!(Coverage::of(&coverage.extents()), coverage);
    }
}

#[test]
fn g2_a_superpage_is_held_whole_if_a_page_of_it_is_granted() {
    let chunk = |number: u64| Extent {
        page: number * CHUNK_PAGES,
        pages: CHUNK_PAGES as u32,
        role: Role::DATA,
        zone: Zone::Super,
    };
    let freed = Extent { pages: 3 * CHUNK_PAGES as u32, ..chunk(4) };
    let sorted = Coverage::of(&[normal(5 * CHUNK_PAGES + 7, 1)]).sort(&[freed]);
    assert_eq!(sorted, SortedPages { held: vec![chunk(5)], free: vec![chunk(4), chunk(6)] });
}
