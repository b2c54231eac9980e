//! Pins of threads, of processes, and of a child of fork.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::*;
use crate::planted::plant;

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicUsize);

/// Whether who pins, looks up which of two places is in use and reads there ever finds one that was given up, within `patience`;
/// with `bug` planted in who gives them up.
fn is_reused_under_a_pin(bug: Option<&str>, patience: Duration) -> bool {
    const GIVEN_UP: usize = 1;
    let (used, places, is_found, is_over) =
        (&Line::default(), &[Line::default(), Line::default()], &Line::default(), &Line::default());
    // What a processor stores waits behind what it has stored before, longest where that is in no cache.
    let far: &Vec<Line> = &std::iter::repeat_with(Line::default).take(1 << 15).collect();
    let read = |round: usize| {
        (0..2).for_each(|near| far[(round * 2 + near) * 97 % far.len()].0.store(round, Ordering::Relaxed));
        let _pin = pin();
        let place = &places[used.0.load(Ordering::Acquire)].0;
        (0..32).any(|_| place.load(Ordering::Relaxed) == GIVEN_UP)
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in (0..).take_while(|_| is_over.0.load(Ordering::Relaxed) == 0) {
                if read(round) {
                    return is_found.0.store(1, Ordering::Relaxed);
                }
            }
        });
        let planted = bug.map(plant);
        let limit = Instant::now() + patience;
        for old in [0, 1].into_iter().cycle() {
            if is_found.0.load(Ordering::Relaxed) > 0 || Instant::now() > limit {
                break;
            }
            places[1 - old].0.store(0, Ordering::Relaxed);
            used.0.store(1 - old, Ordering::Release);
            wait_for_pins();
            places[old].0.store(GIVEN_UP, Ordering::Relaxed);
        }
        drop(planted);
        is_over.0.store(1, Ordering::Relaxed);
    });
    is_found.0.load(Ordering::Relaxed) > 0
}

/// What is wrong shows by chance, without the barrier mostly within a second.
#[test]
fn p1_p2_nothing_is_reused_under_a_pin() {
    assert!(!is_reused_under_a_pin(None, Duration::from_secs(1)));
}

#[test]
fn canary_what_is_reused_under_a_pin_is_found() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return println!("skipped: nothing happens at once on one processor");
    }
    // Where the kernel makes no processor pass one, who pins does.
    for bug in ["memory: pins are not waited for", "memory: processors pass no barrier"]
        .into_iter()
        .take(1 + usize::from(Waiter::is_asymmetric()))
    {
        assert!(is_reused_under_a_pin(Some(bug), Duration::from_secs(120)), "{bug:?} was not found");
    }
}

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
        // Other tests pin too. The test tries often, so that at some time only its own threads are pinned.
        let is_over_early = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            wait_for_pins_until(|| true)
        });
        may_unpin.wait();
        assert!(!is_over_early, "the wait ended while they were pinned");
        wait_for_pins();
    });
    assert_eq!(CROWD.pinned.load(Ordering::SeqCst), 0);
}

/// Returns true if a wait ends within `patience` though a thread pins again at each check. `bug` is planted in the wait.
fn ends_beside_later_pins(bug: Option<&str>, patience: Duration) -> bool {
    assert!(pin().seat().is_some(), "it is among those who are waited for");
    let planted = bug.map(plant);
    let limit = Instant::now() + patience;
    let ends = are_gone(|is_done| {
        let _later = pin();
        spin_until(|| is_done() || Instant::now() > limit);
        is_done()
    });
    drop(planted);
    ends
}

/// P2: who pins while a wait goes on is not waited for, so that a wait ends however often others pin.
#[test]
fn p2_a_wait_ends_though_others_pin_meanwhile() {
    assert!(ends_beside_later_pins(None, Duration::from_secs(5)), "it waited for a later pin");
}

#[test]
fn canary_a_wait_for_later_pins_is_found() {
    assert!(!ends_beside_later_pins(Some("memory: later pins are waited for"), Duration::from_millis(200)));
}

/// P1: an odd word is a pin, and a waiter distinguishes it from earlier and later pins.
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

/// P1: a child waits for its own pin, and for no pin of its parent's other threads.
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
