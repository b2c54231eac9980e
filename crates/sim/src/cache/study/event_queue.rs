//! A queue of events between a reading and a simulating thread: full batches if the reader is quicker, and otherwise
//! whatever is there.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cache::CacheEvent;
use crate::trace::EventSource;
use crate::{Error, Result};

/// Events that are simulated at once.
const BATCH: usize = 1 << 20;

/// Events that may wait; then the source is not read further.
const MOST: usize = 3 * BATCH;

/// The longest wait for a batch.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A batch of events.
#[derive(Default)]
pub struct EventBatch {
    pub events: Vec<CacheEvent>,
    /// Accesses of the program so far.
    pub accesses: u64,
    /// True if the last line of the trace has no end.
    pub is_cut: bool,
    /// The end of the source, if it was reached.
    pub end: Option<Result<()>>,
}

/// A source that is read by a thread of its own, until the queue is dropped.
pub struct EventQueue {
    shared: Arc<QueueState>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct QueueState {
    /// The waiting events, and whether the queue still exists.
    state: Mutex<(EventBatch, QueueTaker)>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum QueueTaker {
    #[default]
    There,
    Gone,
}

impl EventQueue {
    /// Starts to read `source`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn of(source: Box<dyn EventSource>) -> Result<Self> {
        let shared = Arc::<QueueState>::default();
        let own = Arc::clone(&shared);
        let reader = thread::Builder::new().spawn(move || own.gather(source));
        Ok(Self { shared, reader: reader.map_err(Error::io("starting a thread that reads the trace"))? })
    }

    /// Waits a moment for a full batch and returns the waiting events, possibly none: a source may be silent for long.
    pub fn take(&self) -> EventBatch {
        // A thread that has ended stored the end before, unless it panicked.
        let has_ended = self.reader.is_finished();
        let few = |state: &mut (EventBatch, QueueTaker)| state.0.events.len() < BATCH && state.0.end.is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), POLL_INTERVAL, few);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let EventBatch { accesses, is_cut, .. } = state.0;
        let events = Vec::with_capacity(BATCH + BATCH / 8);
        let mut batch = mem::replace(&mut state.0, EventBatch { events, accesses, is_cut, end: None });
        if has_ended {
            batch.end.get_or_insert(Err(Error::Reader));
        }
        self.shared.changed.notify_all();
        batch
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        self.shared.lock().1 = QueueTaker::Gone;
        self.shared.changed.notify_all();
    }
}

impl QueueState {
    fn lock(&self) -> MutexGuard<'_, (EventBatch, QueueTaker)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gather(&self, mut source: Box<dyn EventSource>) {
        let mut events = Vec::new();
        loop {
            let more = source.read(&mut events);
            let mut state = self.lock();
            state.0.events.append(&mut events);
            (state.0.accesses, state.0.is_cut) = (source.accesses(), source.is_cut());
            let goes_on = matches!(more, Ok(true));
            if !goes_on {
                state.0.end = Some(more.map(drop));
            }
            // The receiver waits for a full batch only.
            if !goes_on || state.0.events.len() >= BATCH {
                self.changed.notify_all();
            }
            let is_full =
                |state: &mut (EventBatch, QueueTaker)| state.0.events.len() >= MOST && state.1 == QueueTaker::There;
            let waited = self.changed.wait_while(state, is_full).unwrap_or_else(PoisonError::into_inner);
            if !goes_on || waited.1 == QueueTaker::Gone {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
