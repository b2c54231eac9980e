//! Handling of Ctrl-C, SIGTERM and other signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::outcome::Outcome;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The time within which a second signal counts as the same request. `timeout` sends two signals, and a service manager
/// sends one of each kind.
const SAME: Duration = Duration::from_millis(300);

/// The time of the last request to end this process.
#[derive(Default)]
struct Wish(Option<Instant>);

impl Wish {
    /// Returns true if a signal at `now` is a new request.
    fn is_new(&mut self, now: Instant) -> bool {
        let is_new = self.0.is_none_or(|last| now.duration_since(last) >= SAME);
        self.0 = if is_new { Some(now) } else { self.0 };
        is_new
    }
}

/// Returns the `signals` to catch. If the parent ignores a terminal's signal, as `nohup` and background scripts do,
/// this process does not catch it. Otherwise the signal would end a process that must outlive the terminal.
pub fn caught(signals: &[i32]) -> Vec<i32> {
    caught_of(signals, &std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn caught_of(signals: &[i32], status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let is_ignored = |signal| mask.unwrap_or(0) >> (signal - 1) & 1 == 1;
    let signals = signals.iter().copied();
    signals.filter(|&signal| !matches!(signal, SIGHUP | SIGINT | SIGQUIT) || !is_ignored(signal)).collect()
}

/// From now on, [`is_asked`] reports a first signal, which does not end the process; a second signal does.
pub fn watch() -> std::io::Result<()> {
    let caught = caught(&[SIGINT, SIGTERM, SIGHUP]);
    for &signal in &caught {
        signal_hook::flag::register(signal, Arc::clone(&ASKED))?;
    }
    let mut signals = Signals::new(caught)?;
    let obey = move || {
        let mut wish = Wish::default();
        let mut new = signals.forever().filter(|_| wish.is_new(Instant::now()));
        if new.next().and(new.next()).is_some() {
            signal_hook::low_level::exit(1);
        }
    };
    Builder::new().name("signals".into()).spawn(obey).map(drop)
}

/// Returns true if a signal asked this process to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Returns an error after a signal that asked this process to end.
pub fn go_on() -> Outcome {
    if is_asked() { Err("stopped by a signal before its end".into()) } else { Ok(()) }
}

/// The signal of a power failure. (signal-hook does not name it.)
const SIGPWR: i32 = 30;

/// The signal of a write beyond the limit on file sizes. (signal-hook does not name it.)
const SIGXFSZ: i32 = 25;

/// From now on, a write beyond the limit on file sizes (`ulimit -f`) fails. Otherwise the signal would end this
/// process, which may own a pool. The signal is caught and not ignored, because child programs reset a caught signal to
/// its default.
pub fn outlive_file_limit() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Signals for which a thread waits, instead of their default effect.
pub struct Stop {
    told: Receiver<Asked>,
    sender: Sender<Asked>,
}

/// A request to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The server should end.
    End,
    /// The power fails, and the server should save its data.
    PowerFails,
    /// The event of [`Stop::when`] has happened, and there is no request.
    Done,
}

impl Stop {
    /// Catches the signals from now on.
    pub fn new() -> std::io::Result<Self> {
        Self::catch(false)
    }

    /// Catches the signals from now on, for a command that ends after one request and may then wait without end. A
    /// second request ends the process.
    pub fn once() -> std::io::Result<Self> {
        Self::catch(true)
    }

    fn catch(is_once: bool) -> std::io::Result<Self> {
        let mut signals = Signals::new(caught(&[SIGINT, SIGTERM, SIGHUP, SIGPWR]))?;
        let (sender, told) = channel();
        let all = sender.clone();
        let tell_all = move || {
            let mut wish = Wish::default();
            let asked = |signal| {
                if signal == SIGPWR {
                    return Some(Asked::PowerFails);
                }
                // Running commands check this flag: see `is_asked`.
                ASKED.store(true, Ordering::Relaxed);
                wish.is_new(Instant::now()).then_some(Asked::End)
            };
            let mut is_wished = false;
            // The thread ends when no receiver is left.
            let _ = signals.forever().filter_map(asked).try_for_each(|asked| {
                if asked == Asked::End && is_once && std::mem::replace(&mut is_wished, true) {
                    signal_hook::low_level::exit(1);
                }
                all.send(asked)
            });
        };
        Builder::new().name("signals".into()).spawn(tell_all)?;
        Ok(Self { told, sender })
    }

    /// Makes [`Stop::wait`] return [`Asked::Done`] when `event`, which runs on its own thread, has returned.
    pub fn when(&self, event: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let sender = self.sender.clone();
        let wait = move || {
            event();
            let _ = sender.send(Asked::Done);
        };
        Builder::new().name("event".into()).spawn(wait).map(drop)
    }

    /// Waits for the next request.
    pub fn wait(&self) -> Asked {
        self.told.recv().unwrap_or(Asked::End)
    }

    /// Waits for the next request for at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<Asked> {
        match self.told.recv_timeout(limit) {
            Ok(asked) => Some(asked),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Asked::End),
        }
    }
}

#[cfg(test)]
mod tests;
