//! Parts of budgets.

use super::*;

fn chunks(budget: u64, used: &[u64]) -> Vec<u64> {
    budget_parts(budget * CHUNK, used).into_iter().map(|bytes| bytes / CHUNK).collect()
}

#[test]
fn parts_are_in_proportion_and_make_up_the_budget() {
    assert_eq!(chunks(20, &[100, 100, 0, 50]), [8, 7, 1, 4]);
    for budget in 5..60 {
        let parts = chunks(budget, &[600, 590, 160, 45, 50]);
        assert_eq!(parts.iter().sum::<u64>(), budget, "{parts:?}");
        assert!(parts.iter().all(|part| *part >= 1), "{parts:?}");
    }
}

#[test]
fn each_guest_has_a_chunk_of_the_least_budget() {
    assert_eq!(chunks(1, &[7, 0, 9]), [1, 1, 1]);
}
