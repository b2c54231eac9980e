//! Pins of threads, of processes, and of a child of fork.

use std::sync::mpsc::channel;

use super::*;

#[test]
fn p1_a_wait_ends_only_when_earlier_pins_are_gone() {
    let (pinned, is_pinned) = channel();
    let (unpin, may_unpin) = channel::<()>();
    let gone = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let pin = pin();
            pinned.send(()).expect("the test listens");
            may_unpin.recv().expect("the test tells");
            gone.store(true, Ordering::SeqCst);
            drop(pin);
        });
        is_pinned.recv().expect("the thread pins");
        let waiter = scope.spawn(|| {
            wait_for_pins();
            assert!(gone.load(Ordering::SeqCst), "the wait ended while an earlier pin was held");
        });
        std::thread::yield_now();
        assert!(!waiter.is_finished());
        assert!(!wait_for_pins_until(|| true), "it is there still");
        unpin.send(()).expect("the thread waits");
    });
    assert!(wait_for_pins_until(|| false), "all are gone");
}

#[test]
fn threads_that_live_together_have_seats_of_their_own() {
    let (seats, all) = (std::sync::Mutex::new(std::collections::BTreeSet::new()), std::sync::Barrier::new(5));
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let outer = pin();
                let seat = outer.seat().expect("there are seats for a thousand");
                assert_eq!((pin().seat(), outer.seat()), (None, Some(seat)));
                seats.lock().expect("nobody panics").insert(seat);
                all.wait();
            });
        }
    });
    assert_eq!(seats.into_inner().expect("nobody panics").len(), 5);
}

#[test]
fn p1_a_thread_that_ends_holds_nobody_up() {
    std::thread::spawn(|| std::mem::forget(pin())).join().expect("it ends");
    let next = std::thread::spawn(|| pin().seat().is_some()).join().expect("it ends");
    assert!(next, "who takes its place begins anew");
    wait_for_pins();
}

#[test]
fn an_inner_pin_leaves_the_outer_one_in_place() {
    let outer = pin();
    drop(pin());
    let slot = SLOT.get().expect("seated");
    assert_ne!(slot.pinned.load(Ordering::Relaxed), IDLE);
    drop(outer);
    assert_eq!(slot.pinned.load(Ordering::Relaxed), IDLE);
}

#[test]
fn p1_more_threads_than_slots_are_all_waited_for() {
    let (pinned, may_unpin) = (std::sync::Barrier::new(9), std::sync::Barrier::new(9));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                CROWD.pinned.fetch_add(1, Ordering::SeqCst);
                let pin = Pin { slot: Some(&CROWD), _own_thread: PhantomData };
                pinned.wait();
                may_unpin.wait();
                drop(pin);
            });
        }
        pinned.wait();
        // Other tests pin too: often, so that at some time nobody is waited for but these.
        let is_over_early = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            wait_for_pins_until(|| true)
        });
        may_unpin.wait();
        assert!(!is_over_early, "the wait ended while they were pinned");
        wait_for_pins();
    });
    assert_eq!(CROWD.pinned.load(Ordering::SeqCst), 0);
}

/// P2: who pins while a wait goes on is not waited for, so that a wait ends however often others pin.
#[test]
fn p2_a_wait_ends_though_others_pin_meanwhile() {
    let (pinned, is_pinned_now) = channel();
    let (unpin, may_unpin) = channel::<()>();
    let (is_begun, is_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _pin = pin();
            pinned.send(()).expect("the test listens");
            let _ = may_unpin.recv();
        });
        is_pinned_now.recv().expect("the thread pins");
        let waiter = scope.spawn(|| {
            wait_for_pins_until(|| {
                is_begun.store(true, Ordering::SeqCst);
                is_over.load(Ordering::SeqCst)
            })
        });
        spin_until(|| is_begun.load(Ordering::SeqCst));
        let later = pin();
        drop(unpin);
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(5);
        spin_until(|| waiter.is_finished() || std::time::Instant::now() > limit);
        is_over.store(true, Ordering::SeqCst);
        assert!(waiter.join().expect("it ends"), "it waited for a later pin");
        drop(later);
    });
}

/// P1: an odd word is a pin, and a waiter tells it from those before and after it.
#[test]
fn p1_a_foreign_pin_is_told_from_every_other_of_its_thread() {
    let (foreign, word) = (Foreign::register(), AtomicU64::new(0));
    let seen = || word.load(Ordering::Relaxed);
    let mut before = seen();
    for ends_by_another in [false, true, false] {
        let pin = foreign.pin(&word).expect("not pinned");
        assert!(!seen().is_multiple_of(2) && seen() > before, "{} after {before}", seen());
        assert!(foreign.pin(&word).is_none(), "within it there is no other");
        before = seen();
        if ends_by_another {
            std::mem::forget(pin);
            end_foreign_pin(&word);
        } else {
            drop(pin);
        }
        assert!(seen().is_multiple_of(2) && seen() > before, "{} after {before}", seen());
    }
    before = seen();
    end_foreign_pin(&word);
    assert_eq!(seen(), before, "there was none");
}

/// P1: a child waits for its own pin, and not for those of its parent's other threads.
#[test]
fn p1_a_child_of_fork_has_its_own_pin_alone() {
    let (pinned, is_pinned_now) = channel();
    let (unpin, may_unpin) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _pin = pin();
            pinned.send(()).expect("the test listens");
            let _ = may_unpin.recv();
        });
        is_pinned_now.recv().expect("the thread pins");
        let own = pin();
        // SAFETY: the child allocates nothing, and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            forget_other_threads();
            let keeps_own = is_pinned() && !wait_for_pins_until(|| true);
            end_own_pin();
            let is_free = !is_pinned() && wait_for_pins_until(|| true);
            // SAFETY: no pointer is passed.
            unsafe { libc::_exit(if keeps_own && is_free { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: the status is a local that outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child waits for what it does not have, or not for what it has");
        drop((own, unpin));
    });
}
