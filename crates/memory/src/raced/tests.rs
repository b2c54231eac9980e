use std::sync::mpsc::channel;
use std::thread;

use super::*;

#[test]
fn a_child_that_is_forked_while_another_thread_is_finding_finds_by_itself() {
    static CELL: Raced<i32> = Raced::new();
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel::<()>());
    let finding = thread::spawn(move || {
        *CELL.get_or(|| {
            begun.send(()).expect("the test listens");
            may_go_on.recv().expect("the test tells");
            1
        })
    });
    has_begun.recv().expect("it begins");
    // SAFETY: the child takes a little memory at most, which the C library lets it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed; it ends without unwinding, by a signal where it waits.
        unsafe {
            libc::alarm(30);
            libc::_exit(i32::from(*CELL.get_or(|| 2) != 2));
        }
    }
    let mut status = -1;
    // SAFETY: the status is a local that outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "it waits for a thread that it does not have");
    go_on.send(()).expect("it waits");
    assert_eq!(finding.join().expect("it ends"), 1);
}

#[test]
fn what_was_found_first_stays() {
    static CELL: Raced<i32> = Raced::new();
    assert_eq!(CELL.get(), None);
    let slow = CELL.get_or(|| {
        assert_eq!(*CELL.get_or(|| 1), 1, "another one is faster");
        2
    });
    assert_eq!((*slow, *CELL.get_or(|| 3), CELL.get()), (1, 1, Some(&1)));
}
