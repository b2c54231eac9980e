//! Panics during requests and during background work (FM9).

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bug, PATIENCE, assert_guarded};

/// How many writes are still to panic.
static WRITES: AtomicU32 = AtomicU32::new(0);
/// How many steps are.
static STEPS: AtomicU32 = AtomicU32::new(0);

/// Panics if a write is to.
pub(in super::super) fn meet_write() {
    panic_if_due(&WRITES);
}

/// Panics if a step is to.
pub(in super::super) fn meet_step() {
    panic_if_due(&STEPS);
}

fn panic_if_due(left: &AtomicU32) {
    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        panic!("as planned");
    }
}

/// As many as there are threads, and one more.
#[test]
fn fm9_a_panic_is_an_error_of_its_request_and_costs_no_thread() {
    assert_guarded(Bug::PanicEnds, |world| {
        WRITES.store(3, Ordering::Relaxed);
        let script = "for n in 1 2 3; do echo x > f; done; echo whole > f && cat f";
        let mut shell = Command::new("timeout");
        let said = shell.args(["-s", "KILL", "5", "sh", "-c", script]).current_dir(world.folder.path()).output();
        WRITES.store(0, Ordering::Relaxed);
        let said = said.expect("the shell runs");
        let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        out == "whole\n" && errors.matches("Input/output error").count() + errors.matches("I/O error").count() == 3
    });
}

#[test]
fn fm9_background_work_that_panics_does_not_end_it() {
    assert_guarded(Bug::PanicEnds, |world| {
        STEPS.store(1, Ordering::Relaxed);
        let until = Instant::now() + PATIENCE;
        while STEPS.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(STEPS.load(Ordering::Relaxed), 0, "no step was made");
        thread::sleep(Duration::from_millis(100));
        let worker = world.mounted.as_ref().and_then(|mounted| mounted.thread.as_ref());
        !worker.expect("it began").is_finished()
    });
}
