//! The decision to poll for the next request before sleeping.

use std::fs;
use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// Number of polled waits between two checks if other threads want the processor.
const ASK_EVERY: u32 = 128;
/// Fewest and most waits without polling after other threads wanted the processor. A kernel thread that ran just then
/// ends soon; other threads stay.
const CROWDED_WAITS: (u32, u32) = (64, 2048);
/// Most waits without polling after polling found nothing.
const VAIN_WAITS_MAX: u32 = 256;

/// Polls while polling pays. A client that answers within microseconds is served without a wake-up on either side. If
/// other work waits for a processor, or the client is slow, polling takes time from them and gains nothing.
#[derive(Debug)]
pub(super) struct Spin {
    limit: Duration,
    /// Returns true if more threads want to run than there are processors. The preemption of this thread would be a
    /// weaker sign: the client may have caused it. The scheduler moves only a server that stays awake.
    crowded: fn() -> bool,
    /// Number of coming waits without polling.
    skip: u32,
    /// Length of the next such run after polling found nothing.
    vain_waits: u32,
    /// Length of the next such run if other threads want the processor.
    crowded_waits: u32,
    polled: u32,
}

impl Spin {
    /// Creates the state; it polls for at most `limit` at a time, zero for never.
    pub fn new(limit: Duration) -> Self {
        Self { limit, crowded, skip: 0, vain_waits: 1, crowded_waits: CROWDED_WAITS.0, polled: 0 }
    }

    /// Returns the time to poll now; zero for not at all.
    pub fn limit(&mut self) -> Duration {
        if self.limit.is_zero() {
            return Duration::ZERO;
        }
        if self.skip == 0 && self.polled.is_multiple_of(ASK_EVERY) {
            self.ask();
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Duration::ZERO;
        }
        self.polled = self.polled.wrapping_add(1);
        self.limit
    }

    fn ask(&mut self) {
        let (least, most) = CROWDED_WAITS;
        if (self.crowded)() {
            self.skip = self.crowded_waits;
            self.crowded_waits = (self.crowded_waits * 2).min(most);
        } else {
            self.crowded_waits = least;
        }
    }

    /// Records that polling found a request.
    pub fn hit(&mut self) {
        self.vain_waits = 1;
    }

    /// Records that polling found nothing within the limit.
    pub fn miss(&mut self) {
        self.skip = self.vain_waits;
        self.vain_waits = (self.vain_waits * 2).min(VAIN_WAITS_MAX);
    }
}

/// Asks the kernel if the processors are crowded. If the kernel does not answer, they count as free.
fn crowded() -> bool {
    // The query takes a dozen system calls for a constant, so its result is cached.
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    fs::read_to_string("/proc/loadavg").is_ok_and(|line| runnable(&line).is_some_and(|threads| threads > *PROCESSORS))
}

/// Returns the number of threads that run or want to: the fourth field before its slash.
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
