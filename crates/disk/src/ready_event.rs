//! The descriptor of a queue: readable while the queue has something to collect.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrite_memory::{Error, Result, planted};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use crate::{Clock, Wait};

/// An event that threads signal and that a queue's descriptor shows.
#[derive(Debug)]
pub struct ReadyEvent {
    counter: OwnedFd,
    /// True after a signal, so that clearing an event without one makes no system call.
    is_signalled: AtomicBool,
}

impl ReadyEvent {
    /// Makes an event that is not signalled.
    ///
    /// # Errors
    /// [`Error::Io`] if the host has no descriptor left.
    pub fn new() -> Result<Self> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let counter = made.map_err(|why| Error::io("making the descriptor of a queue", why.into()))?;
        Ok(Self { counter, is_signalled: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable until [`Self::clear`].
    pub fn signal(&self) {
        if !planted!("disk: queue does not signal its descriptor") {
            // A counter at its limit refuses the write, and is readable.
            let _ = write(&self.counter, &1_u64.to_ne_bytes());
            // Behind the write: a clearing that misses the flag leaves the descriptor readable.
            self.is_signalled.store(true, Ordering::SeqCst);
        }
    }

    /// Makes the descriptor unreadable. A queue clears the event before it looks for completions, so that it misses none.
    pub fn clear(&self) {
        if self.is_signalled.swap(false, Ordering::SeqCst) {
            let _ = read(&self.counter, &mut [0_u8; 8]);
        }
    }

    /// Makes the descriptor unreadable also if the kernel signalled the event, which [`Self::clear`] does not see.
    pub fn clear_kernels(&self) {
        self.is_signalled.store(false, Ordering::SeqCst);
        let _ = read(&self.counter, &mut [0_u8; 8]);
    }
}

impl AsFd for ReadyEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

/// Waits until `descriptor` is readable. A signal may end a wait with a limit early.
///
/// # Errors
/// [`Error::Io`] if the host refuses to wait.
pub(crate) fn wait_until_readable(descriptor: BorrowedFd<'_>, wait: Wait) -> Result<()> {
    let limit = match wait {
        Wait::No => return Ok(()),
        Wait::AtMost(limit) => Timespec::try_from(limit).ok(),
        Wait::Forever => None,
    };
    match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(why) => Err(Error::io("waiting for a queue", why.into())),
    }
}

/// A descriptor that is readable from an instant of a clock on.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    /// The instant on the clock; None if the descriptor never becomes readable.
    at_ns: Option<u64>,
    /// True once the descriptor is readable for good, because the clock does not pass by itself.
    rings_always: bool,
}

impl Alarm {
    /// Makes a descriptor that never becomes readable.
    ///
    /// # Errors
    /// [`Error::Io`] if the host has no descriptor left.
    pub fn new() -> Result<Self> {
        let made = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
        let timer = made.map_err(|why| Error::io("making the timer of a queue", why.into()))?;
        Ok(Self { timer, at_ns: None, rings_always: false })
    }

    /// Makes the descriptor readable from `at_ns` on. If `clock` does not pass by itself, it is readable at once, and stays
    /// so: waiting at the queue moves the clock, and setting a timer takes longer than a simulated request.
    pub fn set(&mut self, clock: &dyn Clock, at_ns: Option<u64>) {
        let before_ns = std::mem::replace(&mut self.at_ns, at_ns);
        let is_for_good = at_ns.is_some() && !clock.passes();
        if before_ns == at_ns || self.rings_always || (at_ns.is_none() && !clock.passes()) {
            return;
        }
        self.rings_always = is_for_good;
        let left_ns = match at_ns {
            // A timer of zero would never ring.
            Some(at_ns) if clock.passes() => at_ns.saturating_sub(clock.now_ns()).max(1),
            Some(_) => 1,
            None => 0,
        };
        let left_ns = if planted!("disk: queue does not signal its descriptor") { 0 } else { left_ns };
        let once = |left: Duration| Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        let timer = Itimerspec { it_interval: once(Duration::ZERO), it_value: once(Duration::from_nanos(left_ns)) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer).expect("a valid time for a timer");
    }

    /// Makes the descriptor readable from `at_ns` on, if that is earlier than before.
    pub fn bring_forward(&mut self, clock: &dyn Clock, at_ns: Option<u64>) {
        if at_ns.is_some_and(|at_ns| self.at_ns.is_none_or(|before_ns| at_ns < before_ns)) {
            self.set(clock, at_ns);
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Returns a descriptor that is readable while one of two others is.
///
/// # Errors
/// [`Error::Io`] if the host has no descriptor left.
pub(crate) fn either(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<OwnedFd> {
    let make = || {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, part) in (0..).zip([one, other]) {
            epoll::add(&set, part, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        Ok(set)
    };
    make().map_err(|why: Errno| Error::io("making the descriptor of a queue", why.into()))
}
