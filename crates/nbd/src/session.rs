//! Transmission: requests in, replies out, in order, in the connection's own thread.
//!
//! Every received request is executed before any reply is sent, and one send answers them all. The cost of small
//! requests is system calls and wake-ups of the client, not bytes. A disk with a queue is served by the module `queued`.

use std::sync::Arc;

use ferrite_disk::{Disk, Geometry};

use super::consts::REQUEST_BYTES;
use super::errno::Fault;
use super::export::transmission_flags;
use super::peer::{End, Peer};
use super::wire::{self, Command, Request};
use super::write::PIECE_LEAST_BYTES;

/// Longest read or write, in bytes.
pub const REQUEST_MAX_BYTES: usize = 32 << 20;
/// Longest payload that the server receives in order to refuse it, in bytes; a longer one ends the connection.
const DRAINED_MAX_BYTES: usize = 2 * REQUEST_MAX_BYTES;

/// The reason why a request was not done.
pub(super) enum Trouble {
    /// The server reports the fault to the client.
    Fault(Fault),
    /// The connection has ended.
    End(End),
}

impl<T: Into<Fault>> From<T> for Trouble {
    fn from(fault: T) -> Self {
        Self::Fault(fault.into())
    }
}

impl From<End> for Trouble {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

/// A client that has chosen its export.
pub(super) struct Session {
    pub disk: Arc<dyn Disk>,
    /// The disk's geometry, updated for every batch of requests, because the disk may grow.
    pub geometry: Geometry,
    /// True if both ends agreed on structured replies.
    pub structured: bool,
    /// True if both ends agreed on `base:allocation`.
    pub allocation: bool,
}

impl Session {
    /// Creates a session on `disk` with the agreed properties.
    pub fn new(disk: Arc<dyn Disk>, structured: bool, allocation: bool) -> Self {
        Self { geometry: disk.geometry(), disk, structured, allocation }
    }

    /// Returns the flags that the server reports to the client.
    pub fn transmission_flags(&self) -> u16 {
        transmission_flags(&self.geometry, self.structured)
    }

    /// Answers requests in this thread, one after the other, until the client disconnects.
    pub fn answer(&mut self, peer: &mut Peer<'_>) -> Result<(), End> {
        loop {
            if peer.inbox.held().len() < REQUEST_BYTES {
                peer.need(REQUEST_BYTES)?;
                self.update_geometry();
            }
            let (head, _) = peer.inbox.held().split_first_chunk().expect("a whole request was waited for");
            let request = wire::request(*head)?;
            if request.command == Command::Disconnect {
                return peer.flush();
            }
            match self.serve(&request, peer) {
                Ok(()) => {}
                Err(Trouble::Fault(fault)) => self.fail(&request, peer, &fault),
                Err(Trouble::End(end)) => return Err(end),
            }
            peer.flush_if_full()?;
        }
    }

    /// Updates the geometry: the disk may have grown.
    pub fn update_geometry(&mut self) {
        self.geometry = self.disk.geometry();
    }

    /// Receives one request, executes it, and gathers the reply if it succeeds (N1).
    fn serve(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let payload_bytes = request.payload_bytes();
        if payload_bytes > REQUEST_MAX_BYTES {
            return Err(self.drain_refused(request, peer).map_or_else(Trouble::End, Trouble::Fault));
        }
        if payload_bytes as u64 > PIECE_LEAST_BYTES {
            return self.write_by_pieces(request, peer);
        }
        let whole_bytes = REQUEST_BYTES + payload_bytes;
        peer.need(whole_bytes)?;
        let done = self.check(request).map_err(Trouble::Fault).and_then(|()| self.execute(request, peer));
        peer.inbox.consume(whole_bytes);
        done
    }

    /// Receives and drops the payload of a request that fails the check (N3), so that the next one can be parsed.
    pub fn drain_refused(&self, request: &Request, peer: &mut Peer<'_>) -> Result<Fault, End> {
        if request.payload_bytes() > DRAINED_MAX_BYTES {
            return Err(End::TooLong(request.span.len));
        }
        peer.inbox.consume(REQUEST_BYTES);
        peer.discard(request.payload_bytes())?;
        Ok(self.check(request).expect_err("the caller saw it fail"))
    }

    /// Gathers the reply to a request that failed.
    pub fn fail(&self, request: &Request, peer: &mut Peer<'_>, fault: &Fault) {
        if self.structured {
            peer.outbox.error_chunk(request.cookie, fault);
        } else {
            peer.outbox.simple_reply(request.cookie, fault.errno);
        }
    }
}
