//! Texts that fit some cases, all or none.

use super::*;

#[test]
fn without_a_text_every_case_is_measured() {
    let only = CaseFilter::default();
    assert!(only.takes("anything") && !only.is_some());
    only.ensure_some().expect("nothing was asked for");
}

#[test]
fn a_text_takes_the_cases_that_contain_it() {
    let only = CaseFilter::containing(Some("4K"));
    assert!(only.takes("WR SEQ 4K Q1") && !only.takes("WR SEQ 256K Q1") && only.is_some());
    only.ensure_some().expect("one fits");
}

/// A clone is used by threads of the same run, and what it was asked for counts.
#[test]
fn what_a_clone_was_asked_for_is_known() {
    let only = CaseFilter::containing(Some("tpcc"));
    assert!(only.clone().takes("tpcc"));
    only.ensure_some().expect("the clone took one");
}

#[test]
fn a_text_that_fits_none_is_told_with_the_cases_in_order() {
    let only = CaseFilter::containing(Some("nonsense"));
    for case in ["untar", "tar", "untar"] {
        assert!(!only.takes(case));
    }
    let error = only.ensure_some().expect_err("none fits");
    assert_eq!(error.to_string(), "no case has \"nonsense\" in its name; there are:\ntar\nuntar");
}
