//! When background write-back makes writes durable without an fsync.

use std::time::{Duration, Instant};

/// The longest time that a write waits for write-back.
const LATEST: Duration = Duration::from_secs(5);
/// How long write-back waits after the last write. A user who copies a file and then pulls the plug waits longer.
const QUIET: Duration = Duration::from_millis(200);

/// The state of background write-back.
#[derive(Debug, Default)]
pub struct WriteBack(Option<PendingWrites>);

#[derive(Debug)]
struct PendingWrites {
    mark: u64,
    first: Instant,
    last: Instant,
}

impl WriteBack {
    /// Returns true if write-back is due at `now`. `unsaved` is a mark that changes with each write, or `None` if nothing
    /// is unsaved.
    pub fn is_due(&mut self, unsaved: Option<u64>, now: Instant) -> bool {
        let Some(mark) = unsaved else {
            self.0 = None;
            return false;
        };
        let waiting = self.0.get_or_insert(PendingWrites { mark, first: now, last: now });
        if waiting.mark != mark {
            (waiting.mark, waiting.last) = (mark, now);
        }
        let is_due = now - waiting.last >= QUIET || now - waiting.first >= LATEST;
        if is_due {
            self.0 = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
