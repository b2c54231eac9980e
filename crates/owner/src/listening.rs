//! The owner's end of the control socket.

use std::fs::Metadata;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_pool::Lock;

use super::acceptor::Acceptor;
use super::client_session::Handler;
use super::connection_count::ConnectionCounts;
use super::socket_place::{BoundSocket, SocketPlace};
use super::{Error, Result};

/// The limits that keep one client from harming the others.
#[derive(Clone, Copy, Debug)]
pub struct ListenLimits {
    /// Connections in all; idle ones cost a thread each.
    pub connections: usize,
    /// Connections of one process.
    pub per_process: usize,
    /// Time for the hello, and for a frame once its first byte has come.
    pub frame_time: Duration,
    /// Time for a client to read a reply.
    pub reply_time: Duration,
}

impl Default for ListenLimits {
    fn default() -> Self {
        let (frame_time, reply_time) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { connections: 256, per_process: 64, frame_time, reply_time }
    }
}

/// The control socket being served, until [`ListeningSocket::stop`] or drop.
#[derive(Debug)]
pub struct ListeningSocket {
    /// Kept so that the socket is gone before the lock is (O2).
    _lock: Lock,
    address: SocketPlace,
    bound: BoundSocket,
    /// A byte in this pipe wakes all threads that wait for clients, and stays in the pipe.
    stop: PipeWriter,
    thread: Option<JoinHandle<()>>,
    counts: ConnectionCounts,
}

impl ListeningSocket {
    /// Serves calls on the control socket of the pool that `lock` holds until [`ListeningSocket::stop`].
    ///
    /// # Errors
    /// [`Error::Io`] if no socket can be made.
    pub fn start(lock: &Lock, handler: Arc<dyn Handler>) -> Result<Self> {
        Self::start_within(lock, handler, ListenLimits::default())
    }

    /// As [`ListeningSocket::start`], with other limits.
    ///
    /// # Errors
    /// As [`ListeningSocket::start`].
    pub fn start_within(lock: &Lock, handler: Arc<dyn Handler>, limits: ListenLimits) -> Result<Self> {
        let lock = lock.clone();
        let pool = looked_at(&lock)?;
        let candidates = SocketPlace::candidates(lock.path(), &pool);
        Self::start_at(&candidates, lock, handler, limits)
    }

    pub(super) fn start_at(
        candidates: &[SocketPlace],
        lock: Lock,
        handler: Arc<dyn Handler>,
        limits: ListenLimits,
    ) -> Result<Self> {
        let pool = looked_at(&lock)?;
        let doing = format!("making the control socket of {}", lock.path().display());
        let (address, socket, bound) = bind_first(candidates).map_err(|e| Error::io(doing.clone(), e))?;
        let (near, stop) = io::pipe().map_err(|e| Error::io(doing.clone(), e))?;
        let acceptor = Acceptor::new(socket, Arc::new(OwnedFd::from(near)), handler, limits, (pool.dev(), pool.ino()));
        let counts = acceptor.counts();
        let thread =
            Builder::new().name("control".into()).spawn(move || acceptor.run()).map_err(|e| Error::io(doing, e))?;
        Ok(Self { _lock: lock, address, bound, stop, thread: Some(thread), counts })
    }

    /// The path of the socket.
    #[cfg(test)]
    pub(super) fn path(&self) -> &std::path::Path {
        &self.bound.path
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.counts.taken()
    }

    /// Removes the socket, cancels calls at work, and returns when the last call has ended.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket could not be removed.
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

fn bind_first(candidates: &[SocketPlace]) -> io::Result<(SocketPlace, OwnedFd, BoundSocket)> {
    let mut first_refusal = None;
    for address in candidates {
        match address.bind() {
            Ok((socket, bound)) => return Ok((address.clone(), socket, bound)),
            Err(e) => _ = first_refusal.get_or_insert(e),
        }
    }
    Err(first_refusal.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // A caller that needs the error calls `stop`; the next owner replaces a socket that is left.
        let _ = self.close();
    }
}
