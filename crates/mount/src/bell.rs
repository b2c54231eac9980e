//! The thread that does background work, and what ends its wait.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrite_fs::FileSystem;

use super::write_back::WriteBack;
use ferrite_fuse::steadily;

/// How long background work waits when there was none to do.
const REST: Duration = Duration::from_millis(100);
/// How long work that panicked is left alone: mostly it would do so again.
const REST_AFTER_PANIC: Duration = Duration::from_secs(60);

/// Ends the wait of the thread that does background work.
#[derive(Debug, Default)]
pub(super) struct Bell {
    ended: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    pub fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_all();
    }

    /// Does background work, step by step, until the bell rings.
    pub fn work(&self, fs: &FileSystem) {
        let (mut steps, mut written, mut write_back) = (Work::default(), Work::default(), WriteBack::default());
        loop {
            // What fails is met again, and told, by whoever uses the file system.
            let worked = steps.go_on(Instant::now(), || {
                #[cfg(test)]
                super::tests::note_step();
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

/// Work that is left alone for a while when it panicked, and does not end with that.
#[derive(Debug, Default)]
struct Work {
    rests_until: Option<Instant>,
}

impl Work {
    /// Does `some` of it at `now`; whether there was any.
    fn go_on(&mut self, now: Instant, some: impl FnOnce() -> bool) -> bool {
        if self.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        let done = steadily(some);
        self.rests_until = if done.is_none() { Some(now + REST_AFTER_PANIC) } else { None };
        done.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panicked_rests_and_is_done_again() {
        let (mut work, start) = (Work::default(), Instant::now());
        assert!(!work.go_on(start, || panic!("as planned")));
        assert!(!work.go_on(start + REST_AFTER_PANIC / 2, || panic!("too soon")));
        assert!(work.go_on(start + REST_AFTER_PANIC, || true));
        assert!(work.go_on(start + REST_AFTER_PANIC, || true), "it rests no more");
    }
}
