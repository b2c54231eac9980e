use super::*;

#[test]
fn shares_that_no_guest_has_are_refused_with_the_possible_ones() {
    let refused =
        |min, max, weight| GuestShare { min, max, weight }.ensure_possible().expect_err("refused").to_string();
    assert!(refused(0, 1, 1).contains("at least"));
    assert!(refused(2, 1, 1).contains("larger"));
    assert!(refused(1, 1, 0).contains("from 1 to") && refused(1, 1, WEIGHT_MAX + 1).contains("from 1 to"));
    assert!(refused(1, CHUNKS_MAX + 1, 1).contains("at most"));
    assert!(GuestShare { min: 1, max: CHUNKS_MAX, weight: WEIGHT_MAX }.ensure_possible().is_ok());
    assert!(chunks_of(CHUNK + 1).is_err() && chunks_of(0).is_err() && chunks_of(u64::MAX / CHUNK * CHUNK).is_err());
    assert_eq!(chunks_of(3 * CHUNK).expect("possible"), 3);
}

/// Of two budgets that a crash left, the later one is in force.
#[test]
fn the_later_budget_is_greater() {
    assert!(SetBudget { number: 2, chunks: 1 } > SetBudget { number: 1, chunks: 9 });
}
