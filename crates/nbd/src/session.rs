//! Transmission: requests in, replies out, in order, in the connection's own thread.
//!
//! Every request that is there is executed before anything is sent, and one send answers them all: system calls and
//! wake-ups of the client, not bytes, are what small requests cost.

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
/// Longest payload that is taken off the stream to be refused, in bytes; after a longer one the connection is dropped.
const DRAINED_MAX_BYTES: usize = 2 * REQUEST_MAX_BYTES;

/// Why a request was not done.
pub(super) enum Trouble {
    /// The client is told.
    Fault(Fault),
    /// There is no client any more.
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
    /// The disk's, read anew for every batch of requests, since the disk may grow.
    pub geometry: Geometry,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// `base:allocation` was agreed on.
    pub allocation: bool,
}

impl Session {
    /// A session on `disk`, with what was agreed on.
    pub fn new(disk: Arc<dyn Disk>, structured: bool, allocation: bool) -> Self {
        Self { geometry: disk.geometry(), disk, structured, allocation }
    }

    /// The flags that the client is told.
    pub fn transmission_flags(&self) -> u16 {
        transmission_flags(&self.geometry, self.structured)
    }

    /// Answers requests until the client disconnects, and has what was lent to it.
    pub fn run(&mut self, peer: &mut Peer<'_>) -> Result<(), End> {
        let end = self.answer(peer);
        peer.linger();
        end
    }

    fn answer(&mut self, peer: &mut Peer<'_>) -> Result<(), End> {
        loop {
            if peer.inbox.held().len() < REQUEST_BYTES {
                peer.need(REQUEST_BYTES)?;
                self.geometry = self.disk.geometry();
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

    /// Takes one request off the stream, executes it, and gathers the reply where it succeeds (N1).
    fn serve(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let payload_bytes = request.payload_bytes();
        if payload_bytes > REQUEST_MAX_BYTES {
            return Err(self.drain_oversized(request, peer).map_or_else(Trouble::End, Trouble::Fault));
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

    /// The payload is taken off the stream, so that what follows it is understood, but it is not kept (N3).
    fn drain_oversized(&self, request: &Request, peer: &mut Peer<'_>) -> Result<Fault, End> {
        if request.payload_bytes() > DRAINED_MAX_BYTES {
            return Err(End::TooLong(request.span.len));
        }
        peer.inbox.consume(REQUEST_BYTES);
        peer.discard(request.payload_bytes())?;
        Ok(self.check(request).expect_err("longer than the longest"))
    }

    fn fail(&self, request: &Request, peer: &mut Peer<'_>, fault: &Fault) {
        if self.structured {
            peer.outbox.error_chunk(request.cookie, fault);
        } else {
            peer.outbox.simple_reply(request.cookie, fault.errno);
        }
    }
}
