//! Planted bugs act where they are planted, and nowhere else.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;

use super::*;

fn acts() -> bool {
    planted!("memory: a bug of the tests")
}

#[test]
fn a_bug_acts_in_the_thread_that_planted_it_until_the_guard_is_dropped() {
    assert!(!acts());
    let other = plant("memory: another bug of the tests");
    assert!(!acts());
    let bug = plant("memory: a bug of the tests");
    assert!(acts());
    assert!(!thread::scope(|scope| scope.spawn(acts).join().expect("no panic")));
    drop(other);
    assert!(acts());
    drop(bug);
    assert!(!acts());
}

#[test]
fn a_bug_of_the_process_acts_in_all_threads() {
    let acts = || planted!("memory: a bug of all threads");
    let bug = plant_in_process("memory: a bug of all threads");
    assert!(acts() && thread::scope(|scope| scope.spawn(acts).join().expect("no panic")));
    drop(bug);
    assert!(!acts());
}

#[test]
fn a_closure_decides_at_each_visit_and_may_reach_other_places() {
    let visits = Rc::new(Cell::new(0));
    let counted = visits.clone();
    let inner = plant("memory: a bug inside");
    let bug = plant_with("memory: a bug of the tests", move || {
        counted.set(counted.get() + 1);
        planted!("memory: a bug inside") && counted.get() == 2
    });
    assert_eq!([acts(), acts(), acts()], [false, true, false]);
    assert_eq!(visits.get(), 3);
    drop((bug, inner));
}

#[test]
fn a_panic_removes_the_bug() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = plant("memory: a bug of the tests");
        assert!(!acts());
    });
    assert!(caught.is_err() && !acts());
}
