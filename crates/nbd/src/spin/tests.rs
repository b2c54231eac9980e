use std::cell::Cell;

use super::*;

fn spin(crowded: fn() -> bool) -> Spin {
    Spin { crowded, ..Spin::new(Duration::from_micros(20)) }
}

fn polls(spin: &mut Spin, waits: u32, found: bool) -> u32 {
    let mut polls = 0;
    for _ in 0..waits {
        if spin.limit() > Duration::ZERO {
            polls += 1;
            if found { spin.hit() } else { spin.miss() }
        }
    }
    polls
}

/// A client that never answers within the limit is soon hardly polled for; hits restore polling.
#[test]
fn polling_in_vain_becomes_rare() {
    let mut spin = spin(|| false);
    assert!(polls(&mut spin, 2000, false) < 20);
    assert!(polls(&mut spin, 1000, true) > 700);
}

/// If other threads want the processor, the server does not poll, and with a limit of zero it never polls.
#[test]
fn a_crowd_is_not_kept_waiting() {
    assert_eq!(polls(&mut spin(|| true), 10_000, true), 0);
    assert_eq!(polls(&mut Spin::new(Duration::ZERO), 1000, true), 0);
}

/// A thread that ran only at the moment of the check costs few waits; a thread that stays is checked less often.
#[test]
fn a_passer_by_is_no_crowd() {
    thread_local!(static ASKED: Cell<u32> = const { Cell::new(0) });
    let crowded_once: fn() -> bool = || ASKED.replace(ASKED.get() + 1) == 0;
    assert_eq!(polls(&mut spin(crowded_once), 1064, true), 1000);
    ASKED.set(0);
    let always: fn() -> bool = || ASKED.replace(ASKED.get() + 1) < u32::MAX;
    assert_eq!(polls(&mut spin(always), 100_000, true), 0);
    assert!(ASKED.get() < 60, "{} questions", ASKED.get());
}

/// The kernel's line is parsed, and an invalid line counts as no crowd.
#[test]
fn the_load_is_read() {
    assert_eq!(runnable("0.52 0.58 0.59 3/1234 5678\n"), Some(3));
    assert_eq!(runnable("what"), None);
}
