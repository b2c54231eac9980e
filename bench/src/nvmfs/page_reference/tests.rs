//! Small loads whose counts are known.

use super::*;
use crate::records::PAGE_BYTES;

fn steps(pages: &[u64], verb: TraceVerb) -> Vec<TraceStep> {
    pages.iter().map(|page| TraceStep { file: 0, verb, at: page * PAGE_BYTES, len: PAGE_BYTES }).collect()
}

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
fn a_page_of_a_removed_file_is_not_written() {
    let mut lru = ExactLru::new(2);
    (1..3).for_each(|page| lru.request(page, false));
    lru.forget(1..2);
    assert_eq!(lru.drain(), ReferenceCounts { hits: 0, written_pages: 1 });
}

#[test]
fn nothing_writes_less_than_the_bound() {
    let pages = [1, 2, 3, 1, 2, 3, 1, 2, 3, 3, 3];
    let writes = steps(&pages, TraceVerb::Write);
    // Each page is written once at least.
    assert_eq!(fewest_written(3, &writes), 3);
    // With one place, only the two last rewrites of page 3 are saved.
    let with_one = fewest_written(1, &writes);
    let mut lru = ExactLru::new(1);
    pages.iter().for_each(|page| lru.request(*page, false));
    assert!(with_one <= lru.drain().written_pages && with_one >= 3, "{with_one}");
}

#[test]
fn the_bound_writes_no_page_that_it_keeps_until_its_file_is_removed() {
    let mut all = steps(&[1, 2], TraceVerb::Write);
    all.push(TraceStep { file: 0, verb: TraceVerb::Remove, at: 0, len: 8 * PAGE_BYTES });
    assert_eq!(fewest_written(2, &all), 0);
    assert_eq!(fewest_written(1, &all), 1);
}

#[test]
fn nothing_hits_more_often_than_the_bound() {
    let (fill, probes) = (steps(&[1, 2, 3, 4], TraceVerb::Write), steps(&[1, 2, 3, 1, 1], TraceVerb::Read));
    // With one place: page 1 or another at first, and page 1 again at the end.
    assert_eq!(most_hits(1, &fill, &probes), 3);
    assert_eq!(most_hits(4, &fill, &probes), 5);
    let mut lru = ExactLru::new(1);
    fill.iter().flat_map(TraceStep::pages).for_each(|page| lru.request(page, false));
    lru.drain();
    probes.iter().flat_map(TraceStep::pages).for_each(|page| lru.request(page, true));
    assert_eq!(lru.drain().hits, 1);
}
