//! The thread that runs the background steps of a mounted file system.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrite_fs::FileSystem;
use ferrite_memory::planted;

use super::write_back::WriteBack;
use ferrite_fuse::catch_panic;

/// The pause after a step that found no work.
const REST: Duration = Duration::from_millis(100);
/// The pause after a step that panicked: most likely the next one would panic too.
const REST_AFTER_PANIC: Duration = Duration::from_secs(60);

/// The loop of background steps, and the signal that ends it.
#[derive(Debug, Default)]
pub(super) struct StepWorker {
    ended: Mutex<bool>,
    rung: Condvar,
}

impl StepWorker {
    pub fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_all();
    }

    /// Runs background steps until [`end`](Self::end) is called.
    pub fn work(&self, fs: &FileSystem) {
        let (mut steps, mut written, mut write_back) =
            (GuardedWork::default(), GuardedWork::default(), WriteBack::default());
        loop {
            // The next request of a program that touches the same data reports the error.
            let worked = steps.go_on(Instant::now(), || {
                let _ = planted!("mount: step");
                fs.step().unwrap_or(false)
            });
            written
                .go_on(Instant::now(), || write_back.is_due(fs.unsaved(), Instant::now()) && fs.write_back().is_ok());
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = if worked { Duration::ZERO } else { REST };
            let (ended, _) =
                self.rung.wait_timeout_while(ended, rest, |ended| !*ended).unwrap_or_else(PoisonError::into_inner);
            if *ended {
                return;
            }
        }
    }
}

/// Work that pauses after a panic and then continues.
#[derive(Debug, Default)]
struct GuardedWork {
    rests_until: Option<Instant>,
}

impl GuardedWork {
    /// Runs `some` of the work if it does not pause at `now`. Returns true if `some` found work.
    fn go_on(&mut self, now: Instant, some: impl FnOnce() -> bool) -> bool {
        if self.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        let done = catch_panic(some);
        self.rests_until = if done.is_none() { Some(now + REST_AFTER_PANIC) } else { None };
        done.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
