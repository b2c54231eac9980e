//! Whether to poll for the next request before sleeping.
#![allow(unsafe_code)] // std does not tell how often a thread lost its processor.

use std::mem;
use std::time::Duration;

/// After how many polls it is asked whether others want the processor.
const ASK_EVERY: u32 = 64;
/// How many waits sleep at once after the processor was taken away.
const YIELD_WAITS: u32 = 2048;
/// Most waits that sleep at once after polling was in vain.
const VAIN_WAITS_MAX: u32 = 256;

/// Polls while it pays: a client that answers within microseconds is served without either side being woken, but
/// where other work waits for the processor, or the client is slow, polling takes from them and gives nothing.
#[derive(Debug)]
pub(super) struct Spin {
    limit: Duration,
    /// Waits that are not polled for.
    skip: u32,
    /// Length of the next such run after polling in vain.
    vain_waits: u32,
    polled: u32,
    preemptions: i64,
}

impl Spin {
    /// Polls for at most `limit` at a time; zero for never.
    pub fn new(limit: Duration) -> Self {
        Self { limit, skip: 0, vain_waits: 1, polled: 0, preemptions: preemptions() }
    }

    /// How long to poll now; zero for not at all.
    pub fn limit(&mut self) -> Duration {
        if self.skip > 0 {
            self.skip -= 1;
            return Duration::ZERO;
        }
        self.polled += 1;
        if self.polled.is_multiple_of(ASK_EVERY) && self.was_preempted() {
            self.skip = YIELD_WAITS;
        }
        self.limit
    }

    /// Polling found something.
    pub fn hit(&mut self) {
        self.vain_waits = 1;
    }

    /// Polling found nothing within the limit.
    pub fn miss(&mut self) {
        self.skip = self.skip.max(self.vain_waits);
        self.vain_waits = (self.vain_waits * 2).min(VAIN_WAITS_MAX);
    }

    fn was_preempted(&mut self) -> bool {
        let now = preemptions();
        mem::replace(&mut self.preemptions, now) != now
    }
}

/// How often this thread lost its processor to another one.
fn preemptions() -> i64 {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a live, writable rusage. Where the call fails, zeros say that nothing is known.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(20);

    /// A client that never comes within the limit is soon hardly polled for; one hit restores trust.
    #[test]
    fn polling_in_vain_becomes_rare() {
        let mut spin = Spin::new(LIMIT);
        let mut polls_of = |waits: u32, found: bool| {
            let mut polls = 0;
            for _ in 0..waits {
                if spin.limit() > Duration::ZERO {
                    polls += 1;
                    if found { spin.hit() } else { spin.miss() }
                }
            }
            polls
        };
        assert!(polls_of(2000, false) < 20);
        // How often the machine running this test takes the processor away is its own business.
        assert!(polls_of(VAIN_WAITS_MAX + YIELD_WAITS + ASK_EVERY, true) > 0);
    }

    /// Zero switches it off.
    #[test]
    fn zero_never_polls() {
        let mut spin = Spin::new(Duration::ZERO);
        assert!((0..1000).all(|_| spin.limit().is_zero()));
    }
}
