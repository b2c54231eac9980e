//! Which threads work, and what a failure does.

use std::collections::BTreeSet;
use std::thread::ThreadId;

use super::*;

fn ids(threads: u64) -> Vec<ThreadId> {
    together(threads, |_| Ok(thread::current().id())).expect("they start")
}

/// A thread that is new in each slice has cached nothing of its file, which no program's thread is like.
#[test]
fn the_same_threads_work_in_every_slice() {
    let first = ids(3);
    assert_eq!(ids(3), first);
    assert_eq!(first.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>().len(), 3);
    assert!(!first.contains(&thread::current().id()));
    assert_eq!(ids(1), [thread::current().id()], "one thread is the caller");
    assert!(ids(2).iter().all(|id| !first.contains(id)), "another number has other threads");
}

#[test]
fn each_thread_has_its_number() {
    assert_eq!(together(4, Ok).expect("they start"), [0, 1, 2, 3]);
}

#[test]
fn a_thread_that_fails_fails_all() {
    let failed = || Error::Server { who: "thread".into(), what: "failed".into() };
    let ended = together(3, |number| if number == 1 { Err(failed()) } else { Ok(number) });
    assert_eq!(ended.expect_err("one failed").to_string(), "thread: failed");
    assert!(together(1, |_| Err::<(), _>(failed())).is_err());
}

#[test]
fn no_thread_begins_before_all_wait() {
    let (start, waiting) = (StartLine::default(), AtomicU64::new(0));
    let seen = together(3, |_| {
        waiting.fetch_add(1, Ordering::AcqRel);
        start.wait_for(3);
        Ok(waiting.load(Ordering::Acquire))
    });
    assert_eq!(seen.expect("they start"), [3, 3, 3]);
}

#[test]
fn places_are_different_processors_or_none() {
    let all = places(1).len();
    assert!(all >= 1, "this thread may run somewhere");
    assert!(places(all + 1).is_empty(), "the scheduler places more threads than processors");
    assert_eq!(places(all).iter().map(|place| format!("{place:?}")).collect::<BTreeSet<_>>().len(), all);
}
