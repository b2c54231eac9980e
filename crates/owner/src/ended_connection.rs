//! The process at the other end of a connection, and the end of a connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrite_pool::time_limit::{TimeLimit, poll_entry};
use ferrite_pool::{Caller, PidFd, Pool};

use crate::socket;

/// A client whose connection has ended.
#[derive(Debug)]
pub struct EndedConnection<'a> {
    /// The client.
    pub caller: &'a Caller,
    /// True if the client's process had no other connection then.
    pub was_last: bool,
    /// Becomes readable when the owner stops.
    pub(super) stop: &'a OwnedFd,
}

/// The number of the next connection; 0 is [`crate::OWN_CONNECTION`].
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

impl EndedConnection<'_> {
    /// Returns true if the client's process ends within `limit`. A killed process closes its sockets before it has ended, so a
    /// caller that needs the end waits for about a second. An owner that stops waits no longer (O4).
    pub fn ends_within(&self, limit: Duration) -> bool {
        let _ = TimeLimit::of(limit)
            .wait(&mut [poll_entry(&self.caller.process, libc::POLLIN), poll_entry(self.stop, libc::POLLIN)]);
        !self.caller.process.is_alive()
    }

    /// Ends the grants of processes that have ended; returns the number. As [`ferrite_pool::grant::Grants::reap_behind`].
    ///
    /// # Errors
    /// As [`ferrite_pool::grant::Grants::reap`].
    pub fn reap(&self, pool: &Pool) -> ferrite_pool::Result<usize> {
        pool.grants().reap_behind(pool, self.caller, self.was_last, |limit| self.ends_within(limit))
    }
}

/// Returns the process at the other end of `socket` as a caller.
pub(super) fn caller_of(socket: BorrowedFd<'_>) -> io::Result<Caller> {
    let peer = socket::peer(socket)?;
    let process = process_of_peer(socket, peer.pid)?;
    Ok(Caller { pid: peer.pid, uid: peer.uid, process, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) })
}

/// Returns the process at the other end of `socket`, which had the number `pid` when it connected or began to listen.
pub(super) fn process_of_peer(socket: BorrowedFd<'_>, pid: u32) -> io::Result<PidFd> {
    match socket::peer_process(socket.as_fd()) {
        Ok(fd) => Ok(fd.into()),
        // An older kernel: by number, which is sound as long as the peer has not ended in between.
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => PidFd::open(pid),
        Err(e) => Err(e),
    }
}
