//! The thread that accepts connections, and starts a thread for each client.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_memory::process::effective_user;
use ferrite_pool::time_limit::{TimeLimit, poll_entry};
use ferrite_pool::{Caller, ParentOnlyFd};

use super::channel::FrameChannel;
use super::client_session::{ClientSession, Handler};
use super::connection_count::{ConnectionCounts, ConnectionLimits, CountedConnection};
use super::wire::{self, WireMessage};
use super::{EndedConnection, ListenLimits, ended_connection, passed_fds, socket};

/// The pause when the process or the machine has no descriptor or thread left.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Acceptor {
    kept: ParentOnlyFd,
    socket: OwnedFd,
    stop: Arc<OwnedFd>,
    handler: Arc<dyn Handler>,
    limits: ListenLimits,
    /// Device and inode of the file that is locked.
    pool: (u64, u64),
    uid: u32,
    counts: ConnectionCounts,
}

impl Acceptor {
    pub fn new(
        socket: OwnedFd,
        stop: Arc<OwnedFd>,
        handler: Arc<dyn Handler>,
        limits: ListenLimits,
        pool: (u64, u64),
    ) -> Self {
        let kept = ParentOnlyFd::new(socket.as_fd());
        Self { kept, socket, stop, handler, limits, pool, uid: effective_user(), counts: ConnectionCounts::default() }
    }

    /// The connections of this socket.
    pub fn counts(&self) -> ConnectionCounts {
        self.counts.clone()
    }

    /// Accepts clients until the owner stops; returns when the last session has ended.
    pub fn run(self) {
        let mut sessions: Vec<JoinHandle<()>> = Vec::new();
        while self.await_client() {
            match socket::accept(self.socket.as_fd()) {
                Ok(client) => sessions.extend(self.let_in(client)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.wait_out_shortage(),
            }
            sessions.retain(|session| !session.is_finished());
        }
        // From here on no client is accepted, and the kernel refuses the ones that wait.
        drop(self.kept);
        drop(self.socket);
        for session in sessions {
            let _ = session.join();
        }
    }

    fn await_client(&self) -> bool {
        let mut asked = [poll_entry(&self.stop, libc::POLLIN), poll_entry(&self.socket, libc::POLLIN)];
        match TimeLimit::forever().wait(&mut asked) {
            Ok(_) => asked[0].revents == 0,
            Err(_) => {
                self.wait_out_shortage();
                true
            }
        }
    }

    fn wait_out_shortage(&self) {
        let _ = TimeLimit::of(SHORTAGE_PAUSE).wait(&mut [poll_entry(&self.stop, libc::POLLIN)]);
    }

    /// Starts a thread for `client`, or refuses the client.
    fn let_in(&self, client: OwnedFd) -> Option<JoinHandle<()>> {
        let (caller, counted) = match self.admit(&client) {
            Ok(admitted) => admitted,
            Err(why) => {
                refuse(&client, why);
                return None;
            }
        };
        let channel = FrameChannel::to_client(client, caller.process.clone(), self.stop.clone());
        let (handler, limits, pool, stop) = (self.handler.clone(), self.limits, self.pool, self.stop.clone());
        let name = format!("control {}", caller.pid);
        let session = move || {
            attend(ClientSession { channel, caller: &caller, handler: handler.as_ref(), limits, pool });
            let ended = EndedConnection { caller: &caller, was_last: counted.leave(), stop: &stop };
            let _ = catch_unwind(AssertUnwindSafe(|| handler.connection_ended(&ended)));
        };
        Builder::new().name(name).spawn(session).ok()
    }

    fn admit(&self, client: &OwnedFd) -> Result<(Caller, CountedConnection), String> {
        let caller = ended_connection::caller_of(client.as_fd()).map_err(|e| format!("cannot tell who asks: {e}"))?;
        if !may_come_in(self.uid, caller.uid) {
            let (own, other) = (self.uid, caller.uid);
            return Err(format!("the pool's owner runs as user {own} and serves that user and root, not user {other}"));
        }
        let room = ConnectionLimits { all: self.limits.connections, per_process: self.limits.per_process };
        let counted = self.counts.take(caller.pid, room)?;
        Ok((caller, counted))
    }
}

/// O3.
fn may_come_in(own_uid: u32, other_uid: u32) -> bool {
    other_uid == own_uid || other_uid == 0
}

/// Sends a refusal. A fresh connection has room for this frame, so the call never waits.
fn refuse(client: &OwnedFd, why: String) {
    if let Ok(bytes) = wire::encode(&WireMessage::Refused { why }) {
        let _: io::Result<usize> = passed_fds::send(client.as_fd(), &bytes, &[]);
    }
}

fn attend(mut session: ClientSession<'_>) {
    // The client knows the error that ended its session, if it could be sent; the owner goes on.
    let _ = session.serve();
}

#[cfg(test)]
mod tests;
