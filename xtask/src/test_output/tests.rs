use super::*;

fn read(output: &str) -> (TestOutput, Vec<&str>) {
    let mut reader = TestOutput::default();
    let shown = output.lines().filter(|line| reader.read(line)).collect();
    (reader, shown)
}

#[test]
fn results_of_several_binaries_are_summed() {
    let (reader, shown) = read(
        "running 2 tests\ntest a ... ok\n\
         test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
         test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n",
    );
    assert_eq!(reader.tally, TestTally { passed: 16, failed: 2, skipped: 1 });
    assert_eq!(reader.tally.to_string(), "16 passed, 2 failed, 1 skipped");
    assert_eq!(shown.len(), 4);
}

#[test]
fn a_test_that_skips_itself_is_not_a_passed_one() {
    let (reader, shown) = read(
        "test t::a ... ok\n\nsuccesses:\n\n---- t::a stdout ----\nseed 1\nskipped: no PKU\nskipped: again\n\n\
         successes:\n    t::a\n    t::b\n\nfailures:\n\n---- t::c stdout ----\nskipped: not this one\n\n\
         failures:\n    t::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
    );
    assert_eq!(reader.tally, TestTally { passed: 1, failed: 1, skipped: 1 });
    assert_eq!(reader.skips, [("t::a".to_owned(), "no PKU".to_owned())]);
    assert!(!shown.contains(&"seed 1"), "chatter of passing tests is kept back");
    assert!(shown.contains(&"---- t::c stdout ----"), "output of failing tests is shown");
}

/// The tests of this program print such lines, because they run steps that fail.
#[test]
fn output_of_a_passing_test_is_neither_shown_nor_counted() {
    let (reader, shown) = read(
        "successes:\n\n---- t::a stdout ----\n== shell\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n\
         -- shell: FAILED: exit status: 1\n\nsuccesses:\n    t::a\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n",
    );
    assert_eq!(reader.tally, TestTally { passed: 1, failed: 0, skipped: 0 });
    assert_eq!(shown, ["test result: ok. 1 passed; 0 failed; 0 ignored"]);
}

#[test]
fn a_test_that_hangs_is_named() {
    let (reader, _) = read(
        "test t::a has been running for over 60 seconds\ntest t::b has been running for over 60 seconds\n\
         test t::a ... ok\ntest t::c ... ok\n",
    );
    assert_eq!(reader.running_long, ["t::b"]);
}

#[test]
fn a_failed_test_is_listed_with_the_place_and_message_of_its_panic() {
    let (reader, _) = read(
        "failures:\n\n---- t::a stdout ----\nseed 1\n\nthread 't::a' (7) panicked at src/a.rs:5:9:\n\
         assertion `left == right` failed: lost\n  left: 1\nstack backtrace:\n   0: rust\n\n\
         ---- t::b stdout ----\nError: no\n\n\
         failures:\n    t::a\n    t::b\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n",
    );
    let message = "src/a.rs:5:9: assertion `left == right` failed: lost left: 1";
    assert_eq!(reader.failures, [("t::a".into(), message.into()), ("t::b".into(), String::new())]);
}
