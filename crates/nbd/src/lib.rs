//! An NBD server over any [`ferrite_disk::Disk`], by the protocol's reference document
//! (github.com/NetworkBlockDevice/nbd, doc/proto.md): fixed newstyle, structured replies, `base:allocation`.
//!
//! ```text
//! client             server (a thread a connection)
//!   |  greeting         |                            transport   bytes each way
//!   |  options, replies |  handshake                 inbox       received, not yet used
//!   |  ...              |                            wire        bytes -> option, request (pure; fuzzed)
//!   |  request request  |  session: inbox -> wire    session     the loop: take, execute, gather, send
//!   |  request ...      |    -> check -> disk        command     what a request does to the disk
//!   |  reply reply ...  |    -> outbox -> one send   outbox      replies, gathered
//! ```
//!
//! - N1. Every request gets exactly one final reply, in the order of requests, or the connection is dropped. What was
//!   gathered of a reply that fails is taken back, or, where it was sent, followed by an error chunk.
//! - N2. A request is done before its reply is gathered: a write is in the disk; with FUA it is durable; a flush
//!   covers every write answered before it on any connection.
//! - N3. A connection holds at most a reply of 4 MiB, plus a few hundred KiB; idle, a few hundred KiB.
//! - N4. Connections share the disk and the registry; no lock is held across I/O on a socket. A client that is slow,
//!   silent or gone holds up its own thread and nobody else.
//! - N5. Nothing a client sends makes the server panic. What is refused is answered while the framing is known;
//!   else its connection is dropped.
//! - N6. What lies outside the disk, is not aligned to its sectors, is too long, unknown, or forbidden never reaches
//!   the disk.
//! - N7. Where a disk panics, its connection ends and the others live.
//! - N8. Stopping answers every request that was received whole, and ends in bounded time.
//! - N9. A client that is not through the handshake in time, whatever it drips or asks, is dropped.
//! - N10. Where TLS is insisted on, nothing but STARTTLS is answered before it, no name of an export either.
//! - N11. Nothing that was said in the clear counts under TLS: what came early ends the connection.
//! - N12. A client whose address is not allowed is turned away before anything is said.
//! - N13. Clients over TCP and clients over Unix sockets take places apart: neither keep the others out. Who has chosen no
//!   export keeps nobody out.
//! - N14. What a disk lends is sent while neither pin nor lock is held: a client that does not take it keeps a bounded
//!   number of blocks from being used again, and no request waiting. What it has in hand is of one version a block.
//! - N15. Replies of all connections together hold at most 64 MiB beyond what idle connections hold. A reply for which there
//!   is no room does not wait for others: it is read piece by piece as its client takes it.
//! - N16. If all places are taken, a new client gets the place of the connection that has waited longest for its
//!   client, if that is a minute or more. Connections of attached nodes take no place.

mod agreed;
mod budget;
pub mod client;
mod command;
pub mod consts;
pub mod errno;
mod export;
mod handshake;
mod inbox;
mod lending;
mod listener;
mod network;
mod outbox;
mod peer;
mod read;
mod registry;
mod server;
mod session;
mod spin;
mod tcp;
mod tls;
mod transport;
mod waiting;
pub mod wire;
mod write;

pub use agreed::{agreed_flags, serve_agreed};
pub use export::{Exports, Refusal};
pub use listener::ListenError;
pub use network::{Network, NotNetwork};
pub use peer::End;
pub use server::{Listening, ListeningTcp, Options, Server};
pub use session::REQUEST_MAX_BYTES;
pub use tcp::TcpOptions;
pub use tls::{Tls, TlsError, TlsFiles};
pub use transport::{Hangup, Transport};
