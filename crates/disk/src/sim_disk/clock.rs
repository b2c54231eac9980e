//! The time by which simulated disks wait, which is passed in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that can be waited for.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an instant of its own; never falls.
    fn now_ns(&self) -> u64;

    /// Returns when [`Clock::now_ns`] is `until_ns` or more.
    fn wait_until_ns(&self, until_ns: u64);

    /// Returns true if time passes by itself, as on the host. Otherwise it passes while a caller waits for it.
    fn passes(&self) -> bool {
        true
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn wait_until_ns(&self, until_ns: u64) {
        (**self).wait_until_ns(until_ns);
    }

    fn passes(&self) -> bool {
        (**self).passes()
    }
}

/// A clock that jumps to the time that is waited for: an hour of a disk's time in a second of a test's, or of a
/// calculation's. Shared by threads, it jumps to the latest time that any of them waits for.
///
/// One thread may use many queues to several drives on one clock. [`Wait::Forever`](crate::Wait::Forever) at one queue
/// would pass over earlier completions at another. So the thread collects with [`Wait::No`](crate::Wait::No) and
/// advances the clock from event to event (SD6 of the module `sim_disk`). A run then depends on its requests and seeds
/// alone.
///
/// ```
/// use ferrite_disk::{Disk, HddDisk, HddProfile, Op, RamDisk, Request, SsdDisk, SsdProfile, VirtualClock, Wait};
/// use ferrite_memory::Span;
/// use std::sync::Arc;
///
/// let clock = Arc::new(VirtualClock::default());
/// let ssd = SsdDisk::new(RamDisk::new(1 << 20), &SsdProfile::nvme(), clock.clone(), 1);
/// let hdd = HddDisk::new(RamDisk::new(1 << 20), &HddProfile::rpm_7200(), clock.clone(), 1);
/// let mut queues = [hdd.queue()?.expect("drives have queues"), ssd.queue()?.expect("drives have queues")];
/// for queue in &mut queues {
///     queue.submit(Request { token: 7, op: Op::Read, span: Span::new(0, 4096), buffer: vec![0; 4096] });
/// }
/// let mut ends_ns = Vec::new();
/// loop {
///     for queue in &mut queues {
///         let mut completions = Vec::new();
///         queue.collect(Wait::No, &mut completions)?;
///         ends_ns.extend(completions.iter().map(|_| clock.now_ns()));
///         // A closed loop submits the next requests here.
///     }
///     let next_ns = [ssd.next_event_ns(), hdd.next_event_ns()].into_iter().flatten().min();
///     let Some(next_ns) = next_ns else { break };
///     clock.advance_to(next_ns);
/// }
/// assert!(ends_ns.len() == 2 && ends_ns[0] < ends_ns[1], "the SSD's read ends first");
/// # use ferrite_disk::Clock;
/// # Ok::<(), ferrite_memory::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// Sets the time to `now_ns`, if it is not later already.
    pub fn advance_to(&self, now_ns: u64) {
        self.0.fetch_max(now_ns, Ordering::SeqCst);
    }

    /// Lets time pass without requests.
    pub fn pass_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_until_ns(&self, until_ns: u64) {
        self.advance_to(until_ns);
    }

    fn passes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
