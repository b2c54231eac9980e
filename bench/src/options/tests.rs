//! Lengths and the cases that are asked for.

use super::*;
use crate::tests::options;

#[test]
fn a_length_picks_its_own_value() {
    assert_eq!(
        [Length::Full, Length::Quick, Length::Smoke].map(|length| length.pick(["f", "q", "s"])),
        ["f", "q", "s"]
    );
}

#[test]
fn cases_are_wanted_by_their_text() {
    let options = options(Some("tar"));
    assert!(options.wants("untar") && !options.wants("tpcc"));
}
