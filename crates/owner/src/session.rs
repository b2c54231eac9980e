//! One client served.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_pool::patience::Patience;
use ferrite_pool::{Caller, Failure};
use serde_json::Value;

use super::channel::{Channel, Frame};
use super::wire::{FDS_MAX, Message, PROTOCOL};
use super::{Error, Limits, NamespaceView, OnProgress, Parted, Result};

/// What a call gives back.
#[derive(Debug, Default)]
pub struct Reply {
    /// The result.
    pub value: Value,
    /// Descriptors for the client, at most [`FDS_MAX`]; ours are closed once they are sent.
    pub fds: Vec<OwnedFd>,
}

/// A request of a client.
pub struct Call<'a> {
    /// The client.
    pub caller: &'a Caller,
    /// The name of the service.
    pub service: &'a str,
    /// The request, in the words of the service.
    pub request: Value,
    /// Descriptors that came with the request.
    pub fds: Vec<OwnedFd>,
    /// What the client sees of the places that the request names; `None` from the owner's own process.
    pub view: Option<NamespaceView>,
    /// Tells the client how far long work is. False: end early, for the client has gone, or the owner is being stopped.
    /// It never waits. Hold no lock across it that others need for long.
    pub progress: OnProgress<'a>,
}

/// What the owner does for its clients. Called from many threads at once, one for each client.
pub trait Handler: Send + Sync {
    /// Does what `call` asks.
    ///
    /// # Errors
    /// The failure, which the client has as [`super::Error::Failed`].
    fn call(&self, call: Call<'_>) -> std::result::Result<Reply, Failure>;

    /// A connection has ended. Its process may have others, and may live on, or be about to end: ask
    /// [`Parted::ends_within`]. Called on the connection's own thread, so it may wait by that; but a client that lives on
    /// can make any number of such threads, and only what it holds is worth one.
    fn gone(&self, parted: &Parted<'_>) {
        let _ = parted;
    }
}

/// One client: its channel, who it is, and who works for it.
pub(super) struct Session<'a> {
    pub channel: Channel,
    pub caller: &'a Caller,
    pub handler: &'a dyn Handler,
    pub limits: Limits,
    /// Device and inode of the file that is locked.
    pub pool: (u64, u64),
}

impl Session<'_> {
    /// Serves until the client goes, breaks the protocol, or we shall stop.
    pub fn serve(&mut self) -> Result<()> {
        let (frame, reply) = (Patience::of(self.limits.frame_time), Patience::of(self.limits.reply_time));
        self.channel.send(&Message::hello_of(Some(self.pool)), &[], reply)?;
        match self.channel.receive(frame, frame)? {
            Some(Frame { message: Message::Hello { protocol: PROTOCOL, .. }, .. }) => {}
            Some(Frame { message: Message::Hello { protocol: theirs, program, .. }, .. }) => {
                return Err(Error::Version { program, theirs, ours: PROTOCOL });
            }
            Some(_) => return Err(Error::Protocol("no hello".into())),
            None => return Ok(()),
        }
        while let Some(Frame { message, fds }) = self.channel.receive(Patience::forever(), frame)? {
            let Message::Call { service, request, fds: sent, view } = message else {
                return Err(Error::Protocol("a client's frame that is no call".into()));
            };
            let outcome =
                if sent == fds.len() { self.call(&service, request, view, fds) } else { Err(lost(sent, fds.len())) };
            self.answer(outcome, reply)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        service: &str,
        request: Value,
        view: Option<NamespaceView>,
        fds: Vec<OwnedFd>,
    ) -> std::result::Result<Reply, Failure> {
        let channel = &mut self.channel;
        let mut progress = |progress| {
            channel.offer(&Message::Progress(progress));
            !channel.is_over()
        };
        // A bug met in one client's call must not take the pool away from the others.
        let call = Call { caller: self.caller, service, request, fds, view, progress: &mut progress };
        let panicked = "the pool's owner failed inside this call; its log says where: report it";
        catch_unwind(AssertUnwindSafe(|| self.handler.call(call))).unwrap_or_else(|_| Err(Failure::failed(panicked)))
    }

    fn answer(&mut self, outcome: std::result::Result<Reply, Failure>, patience: Patience) -> Result<()> {
        match outcome {
            Ok(reply) if reply.fds.len() > FDS_MAX => {
                self.fail(Failure::failed(format!("more than {FDS_MAX} descriptors")), patience)
            }
            Ok(Reply { value, fds }) => {
                let riding: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                match self.channel.send(&Message::Reply { value, fds: fds.len() }, &riding, patience) {
                    // Too long for a frame: nothing of it has been sent.
                    Err(Error::Failed(why)) => self.fail(why, patience),
                    other => other,
                }
            }
            Err(why) => self.fail(why, patience),
        }
    }

    fn fail(&mut self, why: Failure, patience: Patience) -> Result<()> {
        match self.channel.send(&Message::Failed(why), &[], patience) {
            Err(Error::Failed(why)) => self.channel.send(&Message::Failed(why), &[], patience),
            other => other,
        }
    }
}

/// What to say of a call whose descriptors did not all come.
fn lost(sent: usize, came: usize) -> Failure {
    Failure::failed(format!("{came} of {sent} file descriptors came with the call: the owner may have too many open"))
}
