//! Messages to the service manager that started this process, in the protocol of `sd_notify(3)`. Without one they go
//! nowhere.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrite_owner::services::PoolRequest;
use ferrite_owner::{PoolOwner, ServiceRequest};

/// Sent when everything is served.
pub const READY: &str = "READY=1";
/// Sent when the process begins to end.
pub const STOPPING: &str = "STOPPING=1";
const ALIVE: &str = "WATCHDOG=1";

/// The time within which the manager expects the next message of a long start or end.
const EXTENSION: Duration = Duration::from_secs(60);

/// The shortest time between two messages of a long start or end.
const EXTENSION_INTERVAL: Duration = Duration::from_secs(5);

/// Sends `message` to the service manager, if one started this process. The manager notices a lost message.
pub fn notify(message: &str) {
    let Some(socket) = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()) else { return };
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(error) = sent {
        remark!("the service manager at {socket} cannot be told {message:?}: {error}");
    }
}

/// Returns the interval of the messages that the manager expects from the process `pid`, by its two variables. Half of
/// the limit leaves time for a slow answer.
fn interval(limit_us: Option<&str>, watched_pid: Option<&str>, pid: u32) -> Option<Duration> {
    let limit: u64 = limit_us?.parse().ok().filter(|limit| *limit > 0)?;
    let is_watched = watched_pid.is_none_or(|watched| watched.parse() == Ok(pid));
    is_watched.then(|| Duration::from_micros(limit / 2))
}

/// A restore or a last save, which may exceed the manager's limit on starting or stopping. While it progresses, the
/// manager waits.
#[derive(Default)]
pub struct LongStep {
    last: Option<Instant>,
}

impl LongStep {
    /// Extends the manager's limit, unless this step extended it some seconds ago.
    pub fn progressed(&mut self) {
        if self.is_due(Instant::now()) {
            notify(&format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
        }
    }

    /// Returns true if a message at `now` is due, and then counts it as sent.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= EXTENSION_INTERVAL);
        self.last = if is_due { Some(now) } else { self.last };
        is_due
    }
}

/// The thread that reports to the manager that the owner answers. Dropping it stops the thread.
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread, if the manager watches this process. A pool that stops answering requests ends its messages,
    /// and the manager starts the service again.
    pub fn start(owner: Weak<PoolOwner>) -> std::io::Result<Option<Self>> {
        let variable = |name| std::env::var(name).ok();
        let (limit, watched) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        let Some(interval) = interval(limit.as_deref(), watched.as_deref(), std::process::id()) else {
            return Ok(None);
        };
        let (stop, stopped) = channel();
        let report = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(owner) = owner.upgrade() else { return };
                if owner.call(ServiceRequest::of(&PoolRequest::Info), &mut |_| true).is_ok() {
                    notify(ALIVE);
                }
            }
        };
        let thread = thread::Builder::new().name("watchdog".into()).spawn(report)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_half_the_limit_of_this_process() {
        let us = |us| Some(Duration::from_micros(us));
        assert_eq!(interval(Some("60000000"), None, 7), us(30_000_000));
        assert_eq!(interval(Some("10"), Some("7"), 7), us(5));
        assert_eq!(interval(Some("10"), Some("8"), 7), None);
        assert_eq!(interval(Some("0"), None, 7), None);
        assert_eq!(interval(None, None, 7), None);
    }

    #[test]
    fn a_long_step_extends_the_limit_before_it_ends() {
        let (begun, mut step) = (Instant::now(), LongStep::default());
        let extended = (0..=120).filter(|second| step.is_due(begun + Duration::from_secs(*second)));
        assert!(extended.eq((0..=120).step_by(5)));
        assert!(EXTENSION_INTERVAL * 4 < EXTENSION);
    }
}
