//! Counters, where the machine has them.

use super::*;

/// Virtual machines mostly have no counters, and the report says so with this text.
#[test]
fn a_machine_without_counters_says_what_failed() {
    match missing() {
        Some(why) => assert!(why.starts_with("counting TLB misses: "), "{why}"),
        None => {
            let (_, result) = Walks::count(true).and_then(|mut walks| walks.during(|| 7)).expect("it counts");
            assert_eq!(result, 7, "the result of the work is passed on");
        }
    }
}
