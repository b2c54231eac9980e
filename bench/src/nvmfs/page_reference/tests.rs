//! Small loads whose counts are known.

use super::*;

#[test]
fn the_least_recently_used_page_leaves_and_is_written_if_dirty() {
    let mut lru = ExactLru::new(2);
    for (page, is_read) in [(1, false), (2, true), (1, true), (3, false), (2, true)] {
        lru.request(page, is_read);
    }
    // Page 2 left clean, then page 1 left dirty; page 3 is dirty still.
    assert_eq!(lru.drain(), ReferenceCounts { hits: 1, written_pages: 2 });
    assert_eq!(lru.drain(), ReferenceCounts::default());
}

#[test]
fn nothing_writes_less_than_the_bound() {
    let pages = [1, 2, 3, 1, 2, 3, 1, 2, 3, 3, 3].map(|page| (page, false));
    // Each page is written once at least.
    assert_eq!(fewest_written(3, pages.into_iter()), 3);
    // With one place, only the two last rewrites of page 3 are saved.
    let with_one = fewest_written(1, pages.into_iter());
    let mut lru = ExactLru::new(1);
    pages.iter().for_each(|(page, is_read)| lru.request(*page, *is_read));
    assert!(with_one <= lru.drain().written_pages && with_one >= 3, "{with_one}");
}
