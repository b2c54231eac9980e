//! The number of connections, in all and of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections, counted by process.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionCounts(Arc<Mutex<HashMap<u32, usize>>>);

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    counts: ConnectionCounts,
    pid: u32,
}

/// The most connections that are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub all: usize,
    pub per_process: usize,
}

impl ConnectionCounts {
    /// Counts a connection of process `pid`; an error says which limit it exceeds.
    pub fn take(&self, pid: u32, room: ConnectionLimits) -> Result<CountedConnection, String> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&pid).copied().unwrap_or(0));
        if own >= room.per_process {
            return Err(format!("process {pid} has {own} connections to the pool's owner already: close some"));
        }
        if all >= room.all {
            return Err(format!("the pool's owner has {all} connections already: close some"));
        }
        taken.insert(pid, own + 1);
        Ok(CountedConnection { counts: self.clone(), pid })
    }

    /// Returns the number of connections.
    pub fn taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl CountedConnection {
    /// Ends the count. Returns true if the process has no other connection.
    pub fn leave(self) -> bool {
        let (counts, pid) = (self.counts.clone(), self.pid);
        drop(self);
        !counts.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&pid)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut taken = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.pid) {
            *own -= 1;
        }
        taken.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests;
