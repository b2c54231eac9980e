//! The owner's end of the control socket: who may come in, and a thread for each who does.

use std::fs::Metadata;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_pool::Lock;

use super::address::{Address, Bound};
use super::door::Door;
use super::seats::Seats;
use super::session::Handler;
use super::{Error, Result};

/// What keeps one client from harming the others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in all; idle ones cost a thread each.
    pub connections: usize,
    /// Connections of one process.
    pub per_process: usize,
    /// Time for the hello, and for a frame once its first byte has come.
    pub frame_time: Duration,
    /// Time for a client to take a reply.
    pub reply_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (frame_time, reply_time) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { connections: 256, per_process: 64, frame_time, reply_time }
    }
}

/// The control socket being served, until [`Listening::stop`] or drop.
#[derive(Debug)]
pub struct Listening {
    /// Kept so that the socket is gone before the lock is (O2).
    _lock: Lock,
    address: Address,
    bound: Bound,
    /// A byte in this pipe wakes everybody who waits for a client, and stays there.
    stop: PipeWriter,
    thread: Option<JoinHandle<()>>,
    seats: Seats,
}

impl Listening {
    /// Serves calls on the control socket of the pool that `lock` holds until [`Listening::stop`].
    ///
    /// # Errors
    /// [`Error::Io`] where no socket can be made.
    pub fn start(lock: &Lock, handler: Arc<dyn Handler>) -> Result<Self> {
        Self::start_within(lock, handler, Limits::default())
    }

    /// As [`Listening::start`], with limits of one's own.
    ///
    /// # Errors
    /// As [`Listening::start`].
    pub fn start_within(lock: &Lock, handler: Arc<dyn Handler>, limits: Limits) -> Result<Self> {
        let lock = lock.clone();
        let pool = looked_at(&lock)?;
        let candidates = Address::candidates(lock.path(), &pool);
        Self::start_at(&candidates, lock, handler, limits)
    }

    pub(super) fn start_at(
        candidates: &[Address],
        lock: Lock,
        handler: Arc<dyn Handler>,
        limits: Limits,
    ) -> Result<Self> {
        let pool = looked_at(&lock)?;
        let doing = format!("making the control socket of {}", lock.path().display());
        let (address, socket, bound) = bind_first(candidates).map_err(|e| Error::io(doing.clone(), e))?;
        let (near, stop) = io::pipe().map_err(|e| Error::io(doing.clone(), e))?;
        let door = Door::new(socket, Arc::new(OwnedFd::from(near)), handler, limits, (pool.dev(), pool.ino()));
        let seats = door.seats();
        let thread =
            Builder::new().name("control".into()).spawn(move || door.keep()).map_err(|e| Error::io(doing, e))?;
        Ok(Self { _lock: lock, address, bound, stop, thread: Some(thread), seats })
    }

    /// Where the socket is.
    #[cfg(test)]
    pub(super) fn path(&self) -> &std::path::Path {
        &self.bound.path
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.seats.taken()
    }

    /// Takes the socket away, tells calls at work to end early, and returns when the last has.
    ///
    /// # Errors
    /// [`Error::Io`] where the socket could not be taken away.
    pub fn stop(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let removed = self.address.unbind(&self.bound);
        let doing = || format!("removing {}", self.bound.path.display());
        self.stop.write_all(&[0]).map_err(|e| Error::io("stopping the control socket", e))?;
        thread.join().map_err(|_| Error::io("stopping the control socket", io::Error::other("its thread failed")))?;
        removed.map_err(|e| Error::io(doing(), e))
    }
}

fn looked_at(lock: &Lock) -> Result<Metadata> {
    lock.file().metadata().map_err(|e| Error::io(format!("looking at {}", lock.path().display()), e))
}

fn bind_first(candidates: &[Address]) -> io::Result<(Address, OwnedFd, Bound)> {
    let mut first_refusal = None;
    for address in candidates {
        match address.bind() {
            Ok((socket, bound)) => return Ok((address.clone(), socket, bound)),
            Err(e) => _ = first_refusal.get_or_insert(e),
        }
    }
    Err(first_refusal.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Whoever wants to know whether it went well calls `stop`; a socket left behind is replaced by the next owner.
        let _ = self.close();
    }
}
