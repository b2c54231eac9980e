//! Planted bugs: the crash tests find each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_crash::Model;

use super::crash::{Case, explore_case, find};
use super::{Bug, plant};

/// Returns true if some crash of the case called `name` shows `bug`.
fn is_found(bug: Bug, name: &str, model: Model) -> bool {
    let case: &Case = find(name);
    plant(Some(bug));
    // Some bugs show before any crash.
    let explored = catch_unwind(AssertUnwindSafe(|| explore_case(case, model, None, case.mixes)));
    plant(None);
    explored.is_err() || explored.is_ok_and(|report| report.failure.is_some())
}

#[test]
fn canary_planted_bugs_are_found() {
    for (bug, name, model) in [
        (Bug::WordBeforeData, "write the first bytes", Model::MAPPED),
        (Bug::SizeBeforeData, "append", Model::MAPPED),
        (Bug::SizeBeforeData, "append directly", Model::MAPPED),
        (Bug::ReturnBeforeFence, "overwrite directly", Model::MAPPED),
        // FW4: what waits for a flush.
        (Bug::SizeBeforeData, "append", Model::FILE),
        (Bug::SizeBeforeData, "append, and move over another", Model::FILE),
        (Bug::LeakedPage, "end several files", Model::FILE),
        (Bug::UndefinedGap, "grow after a cut", Model::MAPPED),
        (Bug::ForgottenOrphan, "unlink large", Model::MAPPED),
        (Bug::ForgottenOrphan, "unlink held where words ran short", Model::MAPPED),
        (Bug::SameEpoch, "truncate after an append", Model::MAPPED),
        (Bug::LeakedPage, "unlink", Model::MAPPED),
        (Bug::LeakedPage, "grow by a hole over what was taken ahead", Model::MAPPED),
        (Bug::SplitLowering, "give back what was taken ahead", Model::MAPPED),
        (Bug::SuperBeforeCopy, "move to a superpage", Model::MAPPED),
        (Bug::MoveBeforeCopy, "compaction", Model::MAPPED),
    ] {
        assert!(!is_found_without(name, model), "{name:?} fails by itself");
        assert!(is_found(bug, name, model), "{bug:?} was not found by {name:?} on {model:?}");
    }
}

fn is_found_without(name: &str, model: Model) -> bool {
    let case = find(name);
    explore_case(case, model, None, case.mixes).failure.is_some()
}

/// The search of a released program for planted bugs relies on this name.
#[test]
fn canary_a_planted_bug_leaves_its_name_in_the_program() {
    let program = std::fs::read(std::env::current_exe().expect("a path")).expect("read");
    // The parts are joined here, so that the test itself leaves no such text.
    let marker = ["planted", ": fs: "].concat();
    assert!(program.windows(marker.len()).filter(|bytes| *bytes == marker.as_bytes()).count() > 1);
}
