//! The requests of a load.

use super::*;

#[test]
fn requests_are_repeatable_and_within_their_files() {
    let (window_bytes, answer) = (5 * PAGE_BYTES, PageMeasure::Rate);
    let load = PageLoad { files: 3, window_bytes, requests: 500, reads_permille: 300, sync_every: 0, seed: 9, answer };
    let requests: Vec<PageRequest> = load.requests().collect();
    assert_eq!(requests, load.requests().collect::<Vec<_>>());
    assert!(requests.iter().all(|request| request.file < 3 && request.page < 5));
    let reads = requests.iter().filter(|request| request.is_read).count();
    assert!((100..200).contains(&reads), "{reads}");
}
