//! An NBD export as a [`Disk`]: fixed newstyle, structured replies, `base:allocation`, many requests in flight.
//!
//! ```text
//! caller: request --> pieces --> outgoing --> sending caller --> socket
//! caller: waits <-- jobs <-- flight <-- receiving caller <------ socket
//! ```
//!
//! The client has no thread. One caller sends the commands that all callers gathered. One of the waiting callers
//! receives for all, and hands receiving on when its own reply has arrived. A reply only wakes the thread that waits
//! for it.
//!
//! - C1. Every request ends: by its reply, or by an error when the connection is lost.
//! - C2. The client accepts a server's data only if it fits a request: a cookie that is in flight, bytes and extents
//!   within the requested range, every byte of a read exactly once. Anything else ends the connection.
//! - C3. After the connection is lost the client sends nothing more and refuses every later request as poisoned. Data
//!   that was written before and not flushed may be lost.
//! - C4. No lock is held during a wait for the socket.
//! - C5. If a caller cannot send because the server is not reading, it receives during the wait. So client and server
//!   cannot wait for each other.
//! - C6. The client never sends a command that the server does not offer. FUA becomes a flush, zeroes are written, a
//!   trim does nothing, and a flush that the server cannot do is an error.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use ferrite_disk::{Access, Completion, Disk, Geometry, Op, Request, Run, Zeroing};
use ferrite_memory::{Result, Span};

use crate::consts::{command, transmission};

mod error;
mod flight;
mod handshake;
mod inbox;
mod link;
mod orders;
mod received;
mod turns;
mod uri;

pub use error::ConnectError;
use flight::{Flight, Job, Order};
use handshake::Export;
use inbox::Inbox;
use link::Link;
use uri::Target;
pub use uri::{tcp_uri, unix_uri};

/// The options of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Limit for connecting and the handshake together.
    pub timeout: Duration,
    /// If true, the client refuses every change, whatever the server allows.
    pub read_only: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), read_only: false }
    }
}

/// A connection to an NBD export.
pub struct NbdDisk {
    link: Link,
    export: Export,
    uri: String,
    flight: Mutex<Flight>,
    /// Signals that data was received, or that the receiving caller has stopped.
    changed: Condvar,
}

impl NbdDisk {
    /// Connects to `nbd+unix:///NAME?socket=PATH` or `nbd://HOST[:PORT]/NAME`.
    ///
    /// # Errors
    /// Returns [`ConnectError`], which says if the address, the network, the server or the export is the reason.
    pub fn connect(uri: &str, options: &ConnectOptions) -> std::result::Result<Self, ConnectError> {
        let target = Target::parse(uri)?;
        let (link, mut export) = handshake::connect(&target, options.timeout)?;
        export.read_only |= options.read_only;
        let flight = Mutex::new(Flight::new(uri, Inbox::new(export.structured, export.allocation)));
        Ok(Self { link, export, uri: uri.to_owned(), flight, changed: Condvar::new() })
    }

    /// Returns the URI of the export.
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

impl Drop for NbdDisk {
    /// Sends the disconnect command if that is possible without waiting.
    fn drop(&mut self) {
        let mut flight = self.lock();
        if flight.lost.is_none() && flight.is_idle() {
            flight.say_goodbye();
            let goodbye = flight.take_outgoing();
            // A server that does not receive the command finds the connection closed, which has the same meaning.
            let _ = self.link.send_now(&goodbye);
        }
        self.link.cut();
    }
}

impl NbdDisk {
    /// Starts `request`. Returns its completion if it ended at once.
    pub fn submit(&self, request: Request) -> Option<Completion> {
        let Request { token, op, span, buffer } = request;
        let span = if matches!(op, Op::Read | Op::Write(_)) { Span::new(span.at, buffer.len() as u64) } else { span };
        let result = match op {
            Op::Zero(how) if self.writes_zeros(op) => self.write_zeros(span, how.access),
            _ => match self.order(op, span) {
                Ok(Some(order)) => return self.start(Job::new(order, buffer, Some(token))),
                other => other.map(drop),
            },
        };
        Some(Completion { token, buffer, result })
    }

    /// Returns the completions of submitted requests; with `wait`, at least one if any is pending.
    pub fn poll(&self, wait: bool) -> Vec<Completion> {
        self.receive_what_is_there();
        self.wait_until(|flight| {
            let done = flight.take_submitted();
            (!done.is_empty() || !wait || !flight.owes_submitted()).then_some(done)
        })
    }

    fn call_op(&self, op: Op, span: Span) -> Result<()> {
        match self.order(op, span)? {
            Some(order) => self.call(order, Vec::new(), None).map(drop),
            None => Ok(()),
        }
    }
}

impl Disk for NbdDisk {
    /// Returns the geometry. For properties that the protocol does not cover it assumes the worst: bytes may tear, and
    /// completed writes may be lost.
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.export.size,
            sector_bytes: self.export.sector_bytes,
            atomic_bytes: 1,
            preferred_bytes: self.export.preferred_bytes,
            volatile_cache: !self.export.read_only,
            read_only: self.export.read_only,
            trim: self.offers(transmission::SEND_TRIM),
            identity: [0; 16],
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        if let Some(order) = self.order(Op::Read, span)? {
            into.copy_from_slice(&self.call(order, vec![0; into.len()], None)?.buffer);
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        match self.order(Op::Write(access), span)? {
            Some(order) => self.call(order, Vec::new(), Some(from)).map(drop),
            None => Ok(()),
        }
    }

    fn flush(&self) -> Result<()> {
        self.call_op(Op::Flush, Span::new(0, 0))
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.call_op(Op::Trim(access), span)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        if self.writes_zeros(Op::Zero(how)) {
            return self.write_zeros(span, how.access);
        }
        self.call_op(Op::Zero(how), span)
    }

    /// Returns the extents that `base:allocation` reports, or one run of data from a server without `base:allocation`.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        if self.export.allocation.is_none() || span.len == 0 {
            return Ok(vec![Run { len: span.len, hole: false, zero: false }]);
        }
        let asked = Span::new(span.at, span.len.min(flight::RANGE_MAX_BYTES));
        let order = Order { command: command::BLOCK_STATUS, flags: 0, span: asked, then_flush: false };
        Ok(self.call(order, Vec::new(), None)?.runs)
    }
}
