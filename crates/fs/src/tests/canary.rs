//! Planted bugs: the crash tests find each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_crash::Model;

use super::crash::{Case, explore_case, find};
use super::{Bug, PLANTED};

/// Whether some crash of the case called `name` shows `bug`.
fn is_found(bug: Bug, name: &str) -> bool {
    let case: &Case = find(name);
    PLANTED.set(Some(bug));
    // Some bugs show before any crash.
    let explored = catch_unwind(AssertUnwindSafe(|| explore_case(case, Model::MAPPED, None, case.mixes)));
    PLANTED.set(None);
    explored.is_err() || explored.is_ok_and(|report| report.failure.is_some())
}

#[test]
fn canary_planted_bugs_are_found() {
    for (bug, name) in [
        (Bug::WordBeforeData, "write the first bytes"),
        (Bug::SizeBeforeData, "append"),
        (Bug::SizeBeforeData, "append directly"),
        (Bug::UndefinedGap, "grow after a cut"),
        (Bug::ForgottenOrphan, "unlink large"),
        (Bug::SameEpoch, "truncate after an append"),
        (Bug::LeakedPage, "unlink"),
        (Bug::SuperBeforeCopy, "move to a superpage"),
    ] {
        assert!(!is_found_without(name), "{name:?} fails by itself");
        assert!(is_found(bug, name), "{bug:?} was not found by {name:?}");
    }
}

fn is_found_without(name: &str) -> bool {
    let case = find(name);
    explore_case(case, Model::MAPPED, None, case.mixes).failure.is_some()
}
