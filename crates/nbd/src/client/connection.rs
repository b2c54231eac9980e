//! A connection that its disk and its queues share.

use std::sync::{Condvar, Mutex};

use ferrite_disk::{Access, Disk, Geometry, Op, Run, Zeroing};
use ferrite_memory::{Result, Span};

use super::flight::{self, Flight, Order};
use super::handshake::Export;
use super::inbox::Inbox;
use super::link::Link;
use crate::consts::{command, transmission};

/// A connection to an NBD export. Dropping the last reference ends it.
pub(super) struct Connection {
    pub link: Link,
    pub export: Export,
    pub uri: String,
    pub flight: Mutex<Flight>,
    /// Signals that data was received, or that the receiving caller has stopped.
    pub changed: Condvar,
}

impl Connection {
    /// Creates the connection to `uri` over `link`, whose handshake agreed on `export`.
    pub fn new(uri: &str, link: Link, export: Export) -> Self {
        let flight = Mutex::new(Flight::new(uri, Inbox::new(export.structured, export.allocation)));
        Self { link, export, uri: uri.to_owned(), flight, changed: Condvar::new() }
    }

    fn call_op(&self, op: Op, span: Span) -> Result<()> {
        match self.order(op, span)? {
            Some(order) => self.call(order, Vec::new(), None).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Connection {
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

impl Disk for Connection {
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
