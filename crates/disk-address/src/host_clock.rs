//! The host's clock for simulated disks, kept to the microsecond.

use std::thread;
use std::time::{Duration, Instant};

use ferrite_disk::Clock;

/// How much too late a sleeping thread may wake up; so much of every wait is spent awake. A thread that sleeps is
/// woken 50 us late by the kernel's timer slack alone.
const WAKING: Duration = Duration::from_micros(120);

/// Time since it was made. Waiting sleeps while that is long enough before the end, then spins.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    start: Instant,
}

impl HostClock {
    /// A clock that shows 0 now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for HostClock {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn wait_until_ns(&self, until_ns: u64) {
        let until = self.start + Duration::from_nanos(until_ns);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match left.checked_sub(WAKING) {
                Some(asleep) if !asleep.is_zero() => thread::sleep(asleep),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
