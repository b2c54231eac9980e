use super::*;

#[test]
fn it_is_due_when_nothing_more_is_written_and_after_five_seconds_at_most() {
    let (mut back, start) = (WriteBack::default(), Instant::now());
    let mut due = |unsaved, ms| back.is_due(unsaved, start + Duration::from_millis(ms));
    assert!(!due(None, 0) && !due(Some(1), 10_000), "it waits since just now");
    assert!(!due(Some(2), 10_190) && !due(Some(2), 10_300) && due(Some(2), 10_390));
    assert!(!due(None, 10_400));
    let mut written = (20_000..26_000).step_by(100).enumerate();
    let first = written.find(|(mark, ms)| due(Some(*mark as u64), *ms));
    assert_eq!(first.map(|(_, ms)| ms), Some(25_000));
    assert!(!due(Some(1000), 25_100), "what was written since waits anew");
}
