//! The background work of services: one thread of an owner calls each service's step when it is due.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::registry::RunningServices;

/// The thread; it ends when this is dropped.
pub(crate) struct StepThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StepThread {
    /// Starts the thread if a service of `running` has background work.
    pub fn start(running: &Arc<RunningServices>) -> Option<Self> {
        let first = step_all(running)?;
        let (stop, stopped) = channel();
        let running: Weak<RunningServices> = Arc::downgrade(running);
        let work = move || {
            let mut pause = first;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let Some(next) = running.upgrade().and_then(|running| step_all(&running)) else { return };
                pause = next;
            }
        };
        let thread = Builder::new().name("steps".into()).spawn(work).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// Calls each service's step. Returns the time until the first of the next steps is due.
fn step_all(running: &RunningServices) -> Option<Duration> {
    running.iter().filter_map(|service| service.step()).min()
}

impl Drop for StepThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}
