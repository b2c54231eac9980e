//! The open connections of a server, which can be counted and ended.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::listener::Reach;
use super::transport::{Hangup, Transport};
use super::waiting::Waiting;

/// Time that cut connections may take to notice.
const CUT_NOTICED: Duration = Duration::from_secs(1);

/// The state that connections share besides the disk. Its lock is never held across I/O (N4).
#[derive(Debug)]
pub(super) struct Registry {
    open: Mutex<Open>,
    changed: Condvar,
    stopping: AtomicBool,
    connections_max: usize,
    /// A connection that has waited for its client this long makes room for another.
    idle_least: Duration,
}

#[derive(Debug, Default)]
struct Open {
    live: HashMap<u64, Entry>,
    /// The number of the connection that was admitted last.
    number: u64,
}

#[derive(Debug)]
struct Entry {
    reach: Reach,
    /// True if the client has not chosen its export yet.
    is_choosing: bool,
    hangup: Hangup,
    waiting: Arc<Waiting>,
}

/// A place in the registry, held by a connection until it ends, even by a panic.
#[derive(Debug)]
pub(super) struct Ticket {
    registry: Arc<Registry>,
    number: u64,
    waiting: Arc<Waiting>,
}

impl Registry {
    /// Creates a registry with room for `connections_max` connections of each reach; see
    /// [`super::Options::idle_least`].
    pub fn new(connections_max: usize, idle_least: Duration) -> Self {
        let (open, changed, stopping) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Self { open, changed, stopping, connections_max, idle_least }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a new connection from within `reach`, or `None` if the reach is full (N13) or the server is
    /// stopping. In a full reach the oldest connection that has not chosen its export is cut, or the one that has
    /// waited longest for its client (N16). A client that only connects excludes no other client.
    pub fn admit(self: &Arc<Self>, reach: Reach, transport: &dyn Transport) -> io::Result<Option<Ticket>> {
        let waiting = Arc::new(Waiting::new());
        let entry = Entry { reach, is_choosing: true, hangup: transport.hangup()?, waiting: Arc::clone(&waiting) };
        let mut open = self.lock();
        let neighbours = open.live.values().filter(|entry| entry.reach == reach).count();
        let is_full = neighbours >= self.connections_max;
        if self.is_stopping() || is_full && !open.cut_one(reach, self.idle_least) {
            return Ok(None);
        }
        open.number += 1;
        let number = open.number;
        open.live.insert(number, entry);
        Ok(Some(Ticket { registry: Arc::clone(self), number, waiting }))
    }

    /// Returns true if [`Registry::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits for `pause`, or until the server is stopping.
    pub fn pause(&self, pause: Duration) {
        let _ = self.changed.wait_timeout_while(self.lock(), pause, |_| !self.is_stopping());
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.lock().live.len()
    }

    /// Ends all connections: each answers the requests that it has received (N8) and closes. Connections that have not
    /// done so after `patience` are cut. Returns the number of connections that remain after that: they wait for their
    /// disk.
    pub fn stop(&self, patience: Duration) -> usize {
        let open = self.lock();
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_all();
        open.live.values().for_each(|entry| entry.hangup.stop_receiving());
        let open = self.wait_until_empty(open, patience);
        open.live.values().for_each(|entry| entry.hangup.cut());
        self.wait_until_empty(open, CUT_NOTICED).live.len()
    }

    fn wait_until_empty<'a>(&'a self, open: MutexGuard<'a, Open>, patience: Duration) -> MutexGuard<'a, Open> {
        let waited = self.changed.wait_timeout_while(open, patience, |open| !open.live.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Open {
    /// Cuts the oldest connection that has not chosen its export, or the one that has waited longest, if at least
    /// `idle_least`. Returns true if a connection was cut.
    fn cut_one(&mut self, reach: Reach, idle_least: Duration) -> bool {
        let neighbours = || self.live.iter().filter(|(_, entry)| entry.reach == reach);
        let choosing = neighbours().filter(|(_, entry)| entry.is_choosing).map(|(number, _)| *number).min();
        let waited = |(number, entry): (&u64, &Entry)| entry.waiting.so_far().map(|so_far| (so_far, Reverse(*number)));
        let idle = || neighbours().filter_map(waited).max().filter(|(so_far, _)| *so_far >= idle_least);
        let Some(number) = choosing.or_else(|| idle().map(|(_, Reverse(number))| number)) else { return false };
        let entry = self.live.remove(&number).expect("found above");
        entry.hangup.cut();
        true
    }
}

impl Ticket {
    /// Returns the record in which the connection notes that it waits for its client.
    pub fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    /// Records that the client has chosen an export.
    pub fn chosen(&self) {
        if let Some(entry) = self.registry.lock().live.get_mut(&self.number) {
            entry.is_choosing = false;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.registry.lock().live.remove(&self.number);
        self.registry.changed.notify_all();
    }
}
