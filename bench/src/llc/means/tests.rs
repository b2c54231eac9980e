//! Medians of pairs.

use super::*;

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median(&[(3.0, 1.0), (1.0, 2.0), (8.0, 4.0)]), 2.0);
    assert_eq!(median(&[(3.0, 1.0), (1.0, 1.0)]), 2.0);
    assert_eq!(median(&[]), 1.0);
}
