//! BenchProgress.

use super::*;

#[test]
fn progress_never_goes_back_nor_over_the_end() {
    let mut seen = Vec::new();
    let mut watch = |progress: &BenchProgress<'_>| {
        seen.push((progress.what.to_owned(), progress.done, progress.total));
        true
    };
    let mut steps = StepCount::new(100, &mut watch);
    for (what, ms) in [("making disks", 0), ("read", 60), ("read", 60), ("write", 60)] {
        steps.step(what, ms).expect("the caller goes on");
    }
    assert_eq!(
        seen.iter().map(|(_, done, total)| (*done, *total)).collect::<Vec<_>>(),
        [(0, 100), (60, 100), (100, 100), (100, 100)]
    );
    assert_eq!((seen[0].0.as_str(), seen[3].0.as_str()), ("making disks", "write"));
}

#[test]
fn a_caller_that_wants_the_end_interrupts() {
    let mut stop = |_: &BenchProgress<'_>| false;
    let ended = StepCount::new(100, &mut stop).step("read", 1);
    assert_eq!(ended.expect_err("it was asked to end").to_string(), "interrupted: nothing was written");
}

#[test]
fn cases_are_wanted_by_their_text() {
    let options = BenchOptions {
        length: Length::Quick,
        place: "/dev/shm".into(),
        ferrite: None,
        threads_many: 4,
        only: CaseFilter::containing(Some("tar")),
    };
    assert!(options.wants("untar") && !options.wants("tpcc"));
}
