//! The process at the other end of a connection, and the end of the connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrite_pool::patience::{Patience, ask};
use ferrite_pool::{Caller, PidFd, Pool};

use crate::socket;

/// A client whose connection has ended.
#[derive(Debug)]
pub struct Parted<'a> {
    /// Whose it was.
    pub caller: &'a Caller,
    /// Whether its process had no other connection then.
    pub was_last: bool,
    /// Becomes readable when we shall stop.
    pub(super) stop: &'a OwnedFd,
}

/// The number of the next connection; 0 is [`crate::OWN_CONNECTION`].
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

impl Parted<'_> {
    /// Whether its process ends within `limit`. A killed process closes its sockets before it has ended: who is told
    /// of the one and means the other asks with a second to spare. An owner that is being stopped waits no longer (O4).
    pub fn ends_within(&self, limit: Duration) -> bool {
        let _ = Patience::of(limit).wait(&mut [ask(&self.caller.process, libc::POLLIN), ask(self.stop, libc::POLLIN)]);
        !self.caller.process.is_alive()
    }

    /// Ends the grants of processes that have ended; how many. As [`ferrite_pool::grant::Grants::reap_behind`].
    ///
    /// # Errors
    /// As [`ferrite_pool::grant::Grants::reap`].
    pub fn reap(&self, pool: &Pool) -> ferrite_pool::Result<usize> {
        pool.grants().reap_behind(pool, self.caller, self.was_last, |limit| self.ends_within(limit))
    }
}

/// Who is at the other end of `socket`.
pub(super) fn caller_of(socket: BorrowedFd<'_>) -> io::Result<Caller> {
    let peer = socket::peer(socket)?;
    let process = process_of_peer(socket, peer.pid)?;
    Ok(Caller { pid: peer.pid, uid: peer.uid, process, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) })
}

/// The process at the other end of `socket`, which had the number `pid` when it connected or began to listen.
pub(super) fn process_of_peer(socket: BorrowedFd<'_>, pid: u32) -> io::Result<PidFd> {
    match socket::peer_process(socket.as_fd()) {
        Ok(fd) => Ok(fd.into()),
        // An older kernel: by number, which is sound as long as the peer has not ended in between.
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => PidFd::open(pid),
        Err(e) => Err(e),
    }
}
