//! Ctrl-C and SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::outcome::Outcome;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What comes so soon after a signal is the same wish: `timeout` sends two, and who stops a service one of each kind.
const SAME: Duration = Duration::from_millis(300);

/// When somebody wished last that this process end.
#[derive(Default)]
struct Wish(Option<Instant>);

impl Wish {
    /// Whether a signal at `now` is a wish of its own.
    fn is_new(&mut self, now: Instant) -> bool {
        let is_new = self.0.is_none_or(|last| now.duration_since(last) >= SAME);
        self.0 = if is_new { Some(now) } else { self.0 };
        is_new
    }
}

/// Those of `signals` that are to be caught. What a terminal sends is not where whoever started this process has it
/// ignored, as `nohup` and a script that goes on meanwhile do: caught, it would end what was to outlive that.
pub fn caught(signals: &[i32]) -> Vec<i32> {
    caught_of(signals, &std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn caught_of(signals: &[i32], status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let is_ignored = |signal| mask.unwrap_or(0) >> (signal - 1) & 1 == 1;
    let signals = signals.iter().copied();
    signals.filter(|&signal| !matches!(signal, SIGHUP | SIGINT | SIGQUIT) || !is_ignored(signal)).collect()
}

/// From now on a signal does not end the process but is told by [`is_asked`]; a second one ends it.
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

/// Whether a signal asked this process to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Refuses to go on after a signal that asked this process to end.
pub fn go_on() -> Outcome {
    if is_asked() { Err("stopped by a signal before its end".into()) } else { Ok(()) }
}

/// The power fails. (signal-hook does not name it.)
const SIGPWR: i32 = 30;

/// A file would become longer than this process may make one. (signal-hook does not name it.)
const SIGXFSZ: i32 = 25;

/// From now on a write that goes past the limit on the size of files (`ulimit -f`) fails rather than end this process, which
/// may own a pool. It is caught, not ignored: what is caught means to programs that are started what it always does.
pub fn outlive_file_limit() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Signals that are waited for rather than obeyed.
pub struct Stop {
    told: Receiver<Asked>,
    sender: Sender<Asked>,
}

/// What somebody asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end.
    End,
    /// To save what it can: the power fails.
    PowerFails,
    /// Nothing: what [`Stop::when`] waits for has happened.
    Done,
}

impl Stop {
    /// Catches them from now on.
    pub fn new() -> std::io::Result<Self> {
        Self::catch(false)
    }

    /// The same, for who comes to its end after one wish and may wait meanwhile for what never comes: a second wish ends the
    /// process.
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
            // Until nobody waits any more.
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

    /// Has [`Stop::wait`] return [`Asked::Done`] when `event`, which waits on a thread of its own, has returned.
    pub fn when(&self, event: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let sender = self.sender.clone();
        let wait = move || {
            event();
            let _ = sender.send(Asked::Done);
        };
        Builder::new().name("event".into()).spawn(wait).map(drop)
    }

    /// Waits for the next one.
    pub fn wait(&self) -> Asked {
        self.told.recv().unwrap_or(Asked::End)
    }

    /// Waits for the next one for at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<Asked> {
        match self.told.recv_timeout(limit) {
            Ok(asked) => Some(asked),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Asked::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIGTERM is how one ends that was started so.
    #[test]
    fn what_is_ignored_is_not_caught_but_for_sigterm() {
        let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];
        let of = |status: &str| caught_of(&all, status);
        assert_eq!(of("Name:\tferrite\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n"), all[..3]);
        assert_eq!(of("SigIgn:\t0000000000004006\n"), [SIGTERM, SIGHUP]);
        assert_eq!(of(""), all);
    }

    #[test]
    fn signals_one_after_another_are_one_wish() {
        let (mut wish, began) = (Wish::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        let new: Vec<u64> = [0, 1, 250, 320, 500, 900].into_iter().filter(|ms| wish.is_new(at(*ms))).collect();
        assert_eq!(new, [0, 320, 900], "who presses Ctrl-C all the time is heard");
    }
}
