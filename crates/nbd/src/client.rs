//! An NBD export as a [`Disk`]: fixed newstyle, structured replies, `base:allocation`, many requests in flight.
//!
//! ```text
//! caller: request --> pieces --> outgoing --> sending caller --> socket
//! caller: waits <-- jobs <-- flight <-- receiving caller <------ socket
//! queue: collects <-- ended jobs <-'
//! ```
//!
//! The client has no thread. One caller sends the commands that all callers gathered. One of the waiting callers
//! receives for all, and hands receiving on when its own reply has arrived. The owner of a queue is a caller while it
//! submits or collects.
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
//! - C7. Queues share a connection. Each completes the requests that were submitted to it, and no others.
//! - C8. A queue's descriptor is readable while one of its completions waits, also if another caller received the reply.
//!   It may be readable without a completion: for bytes that no caller has received, and for room that bytes wait for.
//!   After the loss of the connection it is not readable once the queue's owner has collected.
//! - C9. Submitting to a queue and collecting without a wait never wait for the server. Bytes for which the socket has no
//!   room are sent by the next caller that sends, collects or waits.

use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Access, Disk, Geometry, Queue, Run, Zeroing};
use ferrite_memory::{Result, Span};

mod connection;
mod error;
mod flight;
mod handshake;
mod inbox;
mod link;
mod orders;
mod queue;
mod queue_jobs;
mod received;
mod turns;
mod uri;

use connection::Connection;
pub use error::ConnectError;
use queue::NbdQueue;
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

/// A connection to an NBD export. It stays open until its queues are dropped too.
pub struct NbdDisk(Arc<Connection>);

impl NbdDisk {
    /// Connects to `nbd+unix:///NAME?socket=PATH` or `nbd://HOST[:PORT]/NAME`.
    ///
    /// # Errors
    /// Returns [`ConnectError`], which says if the address, the network, the server or the export is the reason.
    pub fn connect(uri: &str, options: &ConnectOptions) -> std::result::Result<Self, ConnectError> {
        let target = Target::parse(uri)?;
        let (link, mut export) = handshake::connect(&target, options.timeout)?;
        export.read_only |= options.read_only;
        Ok(Self(Arc::new(Connection::new(uri, link, export))))
    }

    /// Returns the URI of the export.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }
}

impl Disk for NbdDisk {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.0.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.0.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.0.trim(span, access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.0.write_zeroes(span, how)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.0.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        Ok(Some(Box::new(NbdQueue::open(&self.0)?)))
    }
}
