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

/// Signals that are waited for rather than obeyed.
pub struct Stop(Signals);

impl Stop {
    /// Catches them from now on.
    pub fn new() -> std::io::Result<Self> {
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Self)
    }

    /// Waits for one for at most `limit`; whether one came.
    pub fn wait_for(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if self.0.pending().next().is_some() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for one.
    pub fn wait(&mut self) {
        let _ = self.0.forever().next();
    }
}
