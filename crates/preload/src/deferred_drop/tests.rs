use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use super::*;
use crate::leased_file::wait_briefly;
use crate::reentrancy;

/// For example a signal handler interrupts a copy, and waits for the thread that closes a descriptor.
#[test]
fn ld5_who_lets_go_of_something_does_not_wait_for_ever_and_nothing_is_dropped_under_a_pin() {
    let thing = Arc::new(());
    let ((pinned, is_pinned), (unpin, may_unpin), (gone_on, has_gone_on)) = (channel(), channel::<()>(), channel());
    let copying = thread::spawn(move || {
        let pin = ferrite_memory::pin();
        pinned.send(()).expect("the test listens");
        let _ = may_unpin.recv();
        drop(pin);
    });
    is_pinned.recv().expect("it pins");
    let drop_later_inside = |thing| {
        let _inside = reentrancy::enter();
        drop_later(thing);
    };
    let kept = Arc::clone(&thing);
    thread::spawn(move || {
        drop_later_inside(kept);
        gone_on.send(()).expect("the test listens");
    });
    has_gone_on.recv_timeout(Duration::from_secs(30)).expect("it goes on under the pin of another thread");
    assert_eq!(Arc::strong_count(&thing), 2, "which may be using it");
    drop(unpin);
    copying.join().expect("it ends");
    let is_dropped = || {
        drop_later_inside(Arc::new(()));
        Arc::strong_count(&thing) == 1
    };
    wait_briefly(is_dropped);
    assert!(is_dropped(), "when nobody can be using it any more");
}
