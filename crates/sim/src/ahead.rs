//! Something that a thread of its own gives part by part, so that whoever takes the parts can stop while none comes: a
//! pipe may be slow.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Time between two looks at whether to go on, where nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// Parts that a thread gives. When they are dropped, it ends with the part that it is making.
pub struct Parts<T>(Receiver<T>);

/// What there is next.
pub enum Next<T> {
    /// A part.
    Part(T),
    /// Nothing: the thread has ended.
    End,
    /// Nothing yet, and whoever was asked does not want to wait.
    Stopped,
}

impl<T: Send + 'static> Parts<T> {
    /// What `give` sends; so many parts may wait to be taken.
    pub fn of(waiting: usize, give: impl FnOnce(&SyncSender<T>) + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(waiting);
        thread::spawn(move || give(&sender));
        Self(receiver)
    }

    /// The next one. While there is none `goes_on` is asked.
    pub fn next(&self, goes_on: &mut dyn FnMut() -> bool) -> Next<T> {
        loop {
            match self.0.recv_timeout(LOOK) {
                Ok(part) => return Next::Part(part),
                Err(RecvTimeoutError::Disconnected) => return Next::End,
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(RecvTimeoutError::Timeout) => return Next::Stopped,
            }
        }
    }
}
