use super::*;

#[test]
fn work_that_panicked_rests_and_is_done_again() {
    let (mut work, start) = (GuardedWork::default(), Instant::now());
    assert!(!work.go_on(start, || panic!("as planned")));
    assert!(!work.go_on(start + REST_AFTER_PANIC / 2, || panic!("too soon")));
    assert!(work.go_on(start + REST_AFTER_PANIC, || true));
    assert!(work.go_on(start + REST_AFTER_PANIC, || true), "it rests no more");
}
