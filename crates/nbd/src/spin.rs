//! Whether to poll for the next request before sleeping.

use std::fs;
use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// How many waits are polled for before it is asked again whether others want the processor.
const ASK_EVERY: u32 = 128;
/// Fewest and most waits that sleep at once where others want it: a thread of the kernel's that ran just then is soon
/// gone, others stay.
const CROWDED_WAITS: (u32, u32) = (64, 2048);
/// Most waits that sleep at once after polling was in vain.
const VAIN_WAITS_MAX: u32 = 256;

/// Polls while it pays: a client that answers within microseconds is served without either side being woken, but
/// where other work waits for a processor, or the client is slow, polling takes from them and gives nothing.
#[derive(Debug)]
pub(super) struct Spin {
    limit: Duration,
    /// Whether more threads want to run than there are processors. That this thread lost its own one would say less:
    /// the client may have taken it, and only a server that stays awake gets moved to another.
    crowded: fn() -> bool,
    /// Waits that are not polled for.
    skip: u32,
    /// Length of the next such run after polling in vain.
    vain_waits: u32,
    /// And where others want the processor.
    crowded_waits: u32,
    polled: u32,
}

impl Spin {
    /// Polls for at most `limit` at a time; zero for never.
    pub fn new(limit: Duration) -> Self {
        Self { limit, crowded, skip: 0, vain_waits: 1, crowded_waits: CROWDED_WAITS.0, polled: 0 }
    }

    /// How long to poll now; zero for not at all.
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

    /// Polling found something.
    pub fn hit(&mut self) {
        self.vain_waits = 1;
    }

    /// Polling found nothing within the limit.
    pub fn miss(&mut self) {
        self.skip = self.vain_waits;
        self.vain_waits = (self.vain_waits * 2).min(VAIN_WAITS_MAX);
    }
}

/// Asks the kernel. Where it does not say, nobody else is assumed.
fn crowded() -> bool {
    // A dozen system calls, for what does not change.
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    fs::read_to_string("/proc/loadavg").is_ok_and(|line| runnable(&line).is_some_and(|threads| threads > *PROCESSORS))
}

/// Threads that run or want to: the fourth field before its slash.
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
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

    /// A client that never comes within the limit is soon hardly polled for; hits restore trust.
    #[test]
    fn polling_in_vain_becomes_rare() {
        let mut spin = spin(|| false);
        assert!(polls(&mut spin, 2000, false) < 20);
        assert!(polls(&mut spin, 1000, true) > 700);
    }

    /// Where others want the processor nothing is polled for, and with a limit of zero never.
    #[test]
    fn a_crowd_is_not_kept_waiting() {
        assert_eq!(polls(&mut spin(|| true), 10_000, true), 0);
        assert_eq!(polls(&mut Spin::new(Duration::ZERO), 1000, true), 0);
    }

    /// Who ran only at the moment of asking costs few waits; who stays is not asked about at every turn.
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

    /// The kernel's line is understood, and one that is not is no crowd.
    #[test]
    fn the_load_is_read() {
        assert_eq!(runnable("0.52 0.58 0.59 3/1234 5678\n"), Some(3));
        assert_eq!(runnable("what"), None);
    }
}
