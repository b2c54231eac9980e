use super::*;
use crate::guest_share::{GuestShare, SetBudget};

#[test]
fn sizes_that_no_guest_has_are_refused_with_the_possible_ones() {
    for (size, pm_bytes) in [(0, CHUNK), (PAGE + 512, CHUNK), (PAGE, 0), (PAGE, CHUNK + PAGE), (1 << 60, CHUNK)] {
        let error = GuestLayout::new(size, pm_bytes, [1; 16]).expect_err("refused").to_string();
        assert!(error.contains("a multiple of"), "{error}");
    }
    let layout = GuestLayout::new(16 * CHUNK, 2 * CHUNK, [1; 16]).expect("possible");
    assert_eq!((layout.frames, layout.pages(), layout.map_bytes()), (1024, 8192, 3 * PAGE));
}

/// Bytes that a tag may have are read as the layout that made them, or refused.
#[test]
fn a_tag_has_the_layout_of_its_making() {
    use ferrite_pool::{Extent, Zone};
    let layout = GuestLayout::new(16 * CHUNK, CHUNK, [3; 16]).expect("possible");
    let record = ShareRecord { share: GuestShare { min: 1, max: 9, weight: 5 }, budget: SetBudget::default() };
    let extent = |role, page, pages, zone| Extent { page, pages, role, zone };
    let tag = Tag {
        name: "g".into(),
        kind: GUEST_KIND,
        size: layout.size,
        generation: 1,
        attributes: layout.attributes(&record),
        extents: vec![extent(Role::DATA, 512, 512, Zone::Super), extent(Role::MAP, 1024, 2, Zone::Normal)],
    };
    assert_eq!(GuestLayout::read(&tag).expect("read"), layout);
    let changed = |change: &dyn Fn(&mut Tag)| {
        let mut changed = tag.clone();
        change(&mut changed);
        GuestLayout::read(&changed).expect_err("refused").to_string()
    };
    assert!(changed(&|tag| tag.attributes[0] = 3).contains("a version"));
    assert!(changed(&|tag| tag.attributes[44] = 3).contains("a newer version"));
    assert!(changed(&|tag| tag.attributes[56] = 1).contains("a newer version"));
    assert!(changed(&|tag| tag.attributes[0] = 1).contains("a newer version"), "version 1 has no share");
    assert!(changed(&|tag| tag.attributes[24] = 10).contains("a share"), "more than the maximum");
    let mut first = Tag { attributes: [0; 64], ..tag.clone() };
    first.attributes[..24].copy_from_slice(&tag.attributes[..24]);
    first.attributes[0] = 1;
    assert_eq!(GuestLayout::read(&first).expect("read"), layout);
    assert_eq!(ShareRecord::read(&first).map(|record| record.share), Some(GuestShare::fixed(1)));
    assert_eq!(ShareRecord::read(&tag), Some(record));
    assert!(changed(&|tag| tag.size = 5).contains("sizes no guest has"));
    assert!(changed(&|tag| tag.extents[1].pages = 1).contains("less space"));
    changed(&|tag| tag.kind = ferrite_pool::TagKind::DISK);
}
