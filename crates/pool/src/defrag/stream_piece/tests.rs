//! X1: streams page by page.

use proptest::prelude::*;

use super::*;

fn extent(page: u64, pages: u32, role: u8) -> Extent {
    Extent { page, pages, role: Role(role), zone: Zone::Normal }
}

/// The page of every page of every stream.
fn streams(extents: &[Extent]) -> BTreeMap<(Role, u64), u64> {
    let pieces = pieces(extents).into_iter();
    pieces
        .flat_map(|it| (0..it.extent.pages.into()).map(move |i| ((it.extent.role, it.at + i), it.extent.page + i)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// X1: page by page, only the part lies elsewhere, and what it leaves is where it was.
    #[test]
    fn x1_a_part_is_replaced_and_nothing_else(
        shape in prop::collection::vec((1u32..6, 0u8..2, 0u64..2), 1..9), at in 0u64..12, sizes in prop::collection::vec(1u32..4, 1..4)
    ) {
        let mut page = 0;
        let extents: Vec<Extent> = shape.into_iter().map(|(pages, role, gap)| {
            page += u64::from(pages) + gap;
            extent(page - u64::from(pages), pages, role)
        }).collect();
        let mut to_page = 1000;
        let to: Vec<Extent> = sizes.into_iter().map(|pages| {
            to_page += 10;
            extent(to_page, pages, 0)
        }).collect();
        let (before, pages) = (streams(&extents), to.iter().map(|it| u64::from(it.pages)).sum::<u64>());
        prop_assume!((at..at + pages).all(|page| before.contains_key(&(Role(0), page))));
        let (new, left) = replaced(&extents, &StreamPart { role: Role(0), at, to: to.clone() });
        let mut expected = before.clone();
        let places = to.iter().flat_map(|it| it.page..it.end());
        for (page, place) in (at..at + pages).zip(places) {
            expected.insert((Role(0), page), place);
        }
        prop_assert_eq!(streams(&new), expected);
        let was: Vec<u64> = left.iter().flat_map(|it| it.page..it.end()).collect();
        prop_assert_eq!(was, (at..at + pages).map(|page| before[&(Role(0), page)]).collect::<Vec<_>>());
        let copied: u64 = copies(&left, &to).iter().map(|(from, to)| { assert_eq!(from.len, to.len); from.len }).sum();
        prop_assert_eq!(copied, pages * crate::layout::PAGE);
    }
}

#[test]
fn runs_are_of_one_zone_and_one_role() {
    let superpage = Extent { page: 1024, pages: 512, role: Role::DATA, zone: Zone::Super };
    let extents = [extent(3, 2, 0), extent(9, 1, 1), extent(20, 4, 0), superpage, extent(40, 1, 0)];
    let run = |role, at, pages, page, extents| ZoneRun { role: Role(role), at, pages, page, extents };
    assert_eq!(runs(&extents, Zone::Normal), [run(0, 0, 6, 3, 2), run(1, 0, 1, 9, 1), run(0, 518, 1, 40, 1)]);
    assert_eq!(runs(&extents, Zone::Super), [run(0, 6, 512, 1024, 1)]);
}
