//! The session of one client.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_pool::time_limit::TimeLimit;
use ferrite_pool::{Caller, Failure};
use serde_json::Value;

use super::channel::{FrameChannel, ReceivedFrame};
use super::wire::{FDS_MAX, PROTOCOL, WireMessage};
use super::{EndedConnection, Error, ListenLimits, NamespaceView, ProgressCall, Result};

/// The reply to a call.
#[derive(Debug, Default)]
pub struct ServiceReply {
    /// The result.
    pub value: Value,
    /// Descriptors for the client, at most [`FDS_MAX`]; ours are closed once they are sent.
    pub fds: Vec<OwnedFd>,
}

/// A request of a client.
pub struct ServiceCall<'a> {
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
    /// Reports to the client how far long work has come. Returns false to end the work early: the client has ended the
    /// connection, or the owner stops. It never waits. Do not hold a lock across it that others need for long.
    pub progress: ProgressCall<'a>,
}

/// The code that answers calls. Many threads call it at once, one for each client.
pub trait Handler: Send + Sync {
    /// Does what `call` asks.
    ///
    /// # Errors
    /// The failure, which the client has as [`super::Error::Failed`].
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure>;

    /// Hears that a connection has ended. The client's process may have others, and may live on or be about to end: see
    /// [`EndedConnection::ends_within`]. The connection's own thread calls this, so it may wait; but a client that lives on
    /// can make any number of such threads, so it waits only for a process that holds something.
    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        let _ = ended;
    }
}

/// One client: its channel, its process, and the handler of its calls.
pub(super) struct ClientSession<'a> {
    pub channel: FrameChannel,
    pub caller: &'a Caller,
    pub handler: &'a dyn Handler,
    pub limits: ListenLimits,
    /// Device and inode of the file that is locked.
    pub pool: (u64, u64),
}

impl ClientSession<'_> {
    /// Serves until the client ends the connection or breaks the protocol, or the owner stops.
    pub fn serve(&mut self) -> Result<()> {
        let (frame, reply) = (TimeLimit::of(self.limits.frame_time), TimeLimit::of(self.limits.reply_time));
        self.channel.send(&WireMessage::hello_of(Some(self.pool)), &[], reply)?;
        match self.channel.receive(frame, frame)? {
            Some(ReceivedFrame { message: WireMessage::Hello { protocol: PROTOCOL, .. }, .. }) => {}
            Some(ReceivedFrame { message: WireMessage::Hello { protocol: theirs, program, .. }, .. }) => {
                return Err(Error::Version { program, theirs, ours: PROTOCOL });
            }
            Some(_) => return Err(Error::Protocol("no hello".into())),
            None => return Ok(()),
        }
        while let Some(ReceivedFrame { message, fds }) = self.channel.receive(TimeLimit::forever(), frame)? {
            let WireMessage::Call { service, request, fds: sent, view } = message else {
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
    ) -> std::result::Result<ServiceReply, Failure> {
        let channel = &mut self.channel;
        let mut progress = |progress| {
            channel.offer(&WireMessage::Progress(progress));
            !channel.is_over()
        };
        // A panic in one client's call must not take the pool away from the others.
        let call = ServiceCall { caller: self.caller, service, request, fds, view, progress: &mut progress };
        let panicked = "the pool's owner failed inside this call; its log says where: report it";
        catch_unwind(AssertUnwindSafe(|| self.handler.call(call))).unwrap_or_else(|_| Err(Failure::failed(panicked)))
    }

    fn answer(&mut self, outcome: std::result::Result<ServiceReply, Failure>, limit: TimeLimit) -> Result<()> {
        match outcome {
            Ok(reply) if reply.fds.len() > FDS_MAX => {
                self.fail(Failure::failed(format!("more than {FDS_MAX} descriptors")), limit)
            }
            Ok(ServiceReply { value, fds }) => {
                let riding: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                match self.channel.send(&WireMessage::Reply { value, fds: fds.len() }, &riding, limit) {
                    // The reply is too long for a frame, and nothing of it has been sent.
                    Err(Error::Failed(why)) => self.fail(why, limit),
                    other => other,
                }
            }
            Err(why) => self.fail(why, limit),
        }
    }

    fn fail(&mut self, why: Failure, limit: TimeLimit) -> Result<()> {
        match self.channel.send(&WireMessage::Failed(why), &[], limit) {
            Err(Error::Failed(why)) => self.channel.send(&WireMessage::Failed(why), &[], limit),
            other => other,
        }
    }
}

/// Returns the failure of a call whose descriptors did not all arrive.
fn lost(sent: usize, came: usize) -> Failure {
    Failure::failed(format!("{came} of {sent} file descriptors came with the call: the owner may have too many open"))
}
