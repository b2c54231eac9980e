//! Sets of pages against what was inserted.

use super::*;

#[test]
fn runs_are_what_was_inserted() {
    let mut pages = ChunkPages::default();
    assert!(pages.is_empty() && pages.runs().next().is_none());
    for run in [0..1, 7..9, 63..130, 500..512] {
        pages.insert(run);
    }
    assert_eq!(pages.runs().collect::<Vec<_>>(), [0..1, 7..9, 63..130, 500..512]);
    assert_eq!(pages.count(), 1 + 2 + 67 + 12);
    assert!(ChunkPages::ALL.runs().eq(std::iter::once(0..512)));
    assert_eq!(ChunkPages::ALL.without(pages).count(), 512 - pages.count());
}
