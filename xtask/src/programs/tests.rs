use super::*;

#[test]
fn programs_are_found_and_missed() {
    assert!(is_there("sh"));
    assert!(!is_there("no-such-program-anywhere"));
}
