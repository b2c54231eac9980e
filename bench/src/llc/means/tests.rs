//! Means of the values of a few programs.

use super::*;

fn mean_of(name: &str, pairs: &[(f64, f64)]) -> f64 {
    let found = OF_FIGURES.into_iter().find(|(mean, _)| *mean == name);
    found.expect("a mean of this name").1(pairs)
}

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(mean_of("median", &[(3.0, 1.0), (1.0, 2.0), (8.0, 4.0)]), 2.0);
    assert_eq!(mean_of("median", &[(3.0, 1.0), (1.0, 1.0)]), 2.0);
    assert_eq!(mean_of("median", &[]), 1.0);
}

/// A program with many accesses outweighs the others in the ratio of sums alone.
#[test]
fn each_mean_weighs_programs_in_its_own_way() {
    let pairs = [(4.0, 1.0), (100.0, 100.0)];
    assert_eq!(mean_of("mean of ratios", &pairs), 2.5);
    assert!((mean_of("geometric mean", &pairs) - 2.0).abs() < 1e-9);
    assert_eq!(mean_of("ratio of sums", &pairs), 104.0 / 101.0);
}
