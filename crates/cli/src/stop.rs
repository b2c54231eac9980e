//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on a signal does not end the process but is told by [`is_asked`]; a second one ends it.
pub fn watch() -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&ASKED))?;
        signal_hook::flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
}

/// Whether somebody asked this process to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// The power fails. (signal-hook does not name it.)
const SIGPWR: i32 = 30;

/// Signals that are waited for rather than obeyed.
pub struct Stop(Signals);

/// What somebody asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end.
    End,
    /// To save what it can: the power fails.
    PowerFails,
}

impl Stop {
    /// Catches them from now on.
    pub fn new() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGPWR]).map(Self)
    }

    /// Waits for somebody to ask to end for at most `limit`; whether that was.
    pub fn wait_for(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if self.0.pending().any(|signal| signal != SIGPWR) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the next signal.
    pub fn wait(&mut self) -> Asked {
        match self.0.forever().next() {
            Some(SIGPWR) => Asked::PowerFails,
            _ => Asked::End,
        }
    }
}
