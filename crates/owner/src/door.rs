//! Who may come in: the thread that accepts connections, and starts one for each.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_memory::process::effective_user;
use ferrite_pool::patience::{Patience, ask};
use ferrite_pool::{Caller, Kept};

use super::channel::Channel;
use super::seats::{Room, Seat, Seats};
use super::session::{Handler, Session};
use super::wire::{self, Message};
use super::{Limits, Parted, parted, rights, socket};

/// How long to leave the door shut when the process or the machine has no descriptor or thread left.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Door {
    kept: Kept,
    socket: OwnedFd,
    stop: Arc<OwnedFd>,
    handler: Arc<dyn Handler>,
    limits: Limits,
    /// Device and inode of the file that is locked.
    pool: (u64, u64),
    uid: u32,
    seats: Seats,
}

impl Door {
    pub fn new(
        socket: OwnedFd,
        stop: Arc<OwnedFd>,
        handler: Arc<dyn Handler>,
        limits: Limits,
        pool: (u64, u64),
    ) -> Self {
        let kept = Kept::new(socket.as_fd());
        Self { kept, socket, stop, handler, limits, pool, uid: effective_user(), seats: Seats::default() }
    }

    /// Those who are in.
    pub fn seats(&self) -> Seats {
        self.seats.clone()
    }

    /// Lets clients in until told to stop; returns when the last session has ended.
    pub fn keep(self) {
        let mut sessions: Vec<JoinHandle<()>> = Vec::new();
        while self.await_client() {
            match socket::accept(self.socket.as_fd()) {
                Ok(client) => sessions.extend(self.let_in(client)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.wait_out_shortage(),
            }
            sessions.retain(|session| !session.is_finished());
        }
        // Nobody new is let in from here on, and those who wait are refused by the kernel at once.
        drop(self.kept);
        drop(self.socket);
        for session in sessions {
            let _ = session.join();
        }
    }

    fn await_client(&self) -> bool {
        let mut asked = [ask(&self.stop, libc::POLLIN), ask(&self.socket, libc::POLLIN)];
        match Patience::forever().wait(&mut asked) {
            Ok(_) => asked[0].revents == 0,
            Err(_) => {
                self.wait_out_shortage();
                true
            }
        }
    }

    fn wait_out_shortage(&self) {
        let _ = Patience::of(SHORTAGE_PAUSE).wait(&mut [ask(&self.stop, libc::POLLIN)]);
    }

    /// A thread for `client`, or a word to it on why not.
    fn let_in(&self, client: OwnedFd) -> Option<JoinHandle<()>> {
        let (caller, seat) = match self.admit(&client) {
            Ok(admitted) => admitted,
            Err(why) => {
                refuse(&client, why);
                return None;
            }
        };
        let channel = Channel::to_client(client, caller.process.clone(), self.stop.clone());
        let (handler, limits, pool, stop) = (self.handler.clone(), self.limits, self.pool, self.stop.clone());
        let name = format!("control {}", caller.pid);
        let session = move || {
            attend(Session { channel, caller: &caller, handler: handler.as_ref(), limits, pool });
            let parted = Parted { caller: &caller, was_last: seat.leave(), stop: &stop };
            let _ = catch_unwind(AssertUnwindSafe(|| handler.gone(&parted)));
        };
        Builder::new().name(name).spawn(session).ok()
    }

    fn admit(&self, client: &OwnedFd) -> Result<(Caller, Seat), String> {
        let caller = parted::caller_of(client.as_fd()).map_err(|e| format!("cannot tell who asks: {e}"))?;
        if !may_come_in(self.uid, caller.uid) {
            let (own, other) = (self.uid, caller.uid);
            return Err(format!("the pool's owner runs as user {own} and serves that user and root, not user {other}"));
        }
        let room = Room { all: self.limits.connections, per_process: self.limits.per_process };
        let seat = self.seats.take(caller.pid, room)?;
        Ok((caller, seat))
    }
}

/// O3.
fn may_come_in(own_uid: u32, other_uid: u32) -> bool {
    other_uid == own_uid || other_uid == 0
}

/// A fresh connection has room for this one frame, so it never waits.
fn refuse(client: &OwnedFd, why: String) {
    if let Ok(bytes) = wire::encode(&Message::Refused { why }) {
        let _: io::Result<usize> = rights::send(client.as_fd(), &bytes, &[]);
    }
}

fn attend(mut session: Session<'_>) {
    // Whatever the session ended by was told to the client as far as it can be; the owner goes on.
    let _ = session.serve();
}

#[cfg(test)]
mod tests {
    use super::may_come_in;

    #[test]
    fn o3_only_the_same_user_or_root_comes_in() {
        assert!(may_come_in(1000, 1000) && may_come_in(1000, 0) && may_come_in(0, 0));
        assert!(!may_come_in(1000, 1001) && !may_come_in(0, 1000));
    }
}
