//! Ctrl-C and SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock};
use std::thread::Builder;
use std::time::Duration;

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
pub struct Stop(Receiver<Asked>);

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
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGPWR])?;
        let (tell, told) = channel();
        let tell_all = move || {
            let asked = |signal| if signal == SIGPWR { Asked::PowerFails } else { Asked::End };
            // Until nobody waits any more.
            let _ = signals.forever().map(asked).try_for_each(|asked| tell.send(asked));
        };
        Builder::new().name("signals".into()).spawn(tell_all)?;
        Ok(Self(told))
    }

    /// Waits for the next one.
    pub fn wait(&self) -> Asked {
        self.0.recv().unwrap_or(Asked::End)
    }

    /// Waits for the next one for at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<Asked> {
        match self.0.recv_timeout(limit) {
            Ok(asked) => Some(asked),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Asked::End),
        }
    }
}
