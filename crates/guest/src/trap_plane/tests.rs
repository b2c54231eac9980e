use ferrite_pool::layout::PAGE;

use super::MappedPages;

/// VP6: neighbours whose frames are neighbours are one mapping.
#[test]
fn vp6_mappings_are_counted_as_the_kernel_joins_them() {
    let mut mapped = MappedPages::default();
    let mut seams = |page, frame: Option<u64>| {
        mapped.set(page, frame.map(|frame| frame * PAGE));
        mapped.seams
    };
    assert_eq!(seams(5, Some(10)), 2);
    assert_eq!(seams(6, Some(11)), 2);
    assert_eq!(seams(7, Some(3)), 3);
    assert_eq!(seams(7, Some(3)), 3);
    assert_eq!(seams(9, Some(4)), 5);
    assert_eq!(seams(6, None), 6);
    assert_eq!([5, 7, 9].map(|page| seams(page, None)), [4, 2, 0]);
}
