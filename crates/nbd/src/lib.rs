//! An NBD server over any [`ferrite_disk::Disk`], by the protocol's reference document
//! (github.com/NetworkBlockDevice/nbd, doc/proto.md): fixed newstyle, structured replies, `base:allocation`.
//!
//! ```text
//! client             server (a thread a connection)
//!   |  greeting         |                            transport   bytes each way
//!   |  options, replies |  handshake                 inbox       received, not yet used
//!   |  ...              |                            wire        bytes -> option, request (pure; fuzzed)
//!   |  request request  |  session: inbox -> wire    session     the loop: take, execute, gather, send
//!   |  request ...      |    -> check -> disk        command     the effect of a request on the disk
//!   |  reply reply ...  |    -> outbox -> one send   outbox      replies, gathered
//!                                                  queued      the loop, if the disk has a queue
//!                                                  in_flight   its requests and their buffers
//! ```
//!
//! - N1. Every request gets exactly one final reply, or the connection is dropped. Replies are in the order of requests;
//!   N17 says when they are not. If a reply fails, its gathered part is removed or, if that part was sent, an error chunk
//!   follows.
//! - N2. A request is done before its reply is gathered: a write is in the disk; with FUA it is durable; a flush covers
//!   every write answered before it on any connection.
//! - N3. A connection holds at most a reply of 4 MiB or what N18 allows, plus a few hundred KiB. Idle, it holds a few
//!   hundred KiB, and up to 512 KiB more if its disk has a queue.
//! - N4. Connections share the disk and the registry; no lock is held across I/O on a socket. A client that is slow,
//!   silent or gone blocks only its own thread.
//! - N5. No input of a client makes the server panic. The server answers a refused request while the framing is known;
//!   otherwise it drops the connection.
//! - N6. A request that lies outside the disk, is not aligned to its sectors, is too long, unknown, or forbidden never
//!   reaches the disk.
//! - N7. If a disk panics, its connection ends and the other connections continue.
//! - N8. Stopping answers every request that was received completely, and ends in bounded time.
//! - N9. A client that does not complete the handshake in time is dropped, however slowly it sends and whatever it
//!   requests.
//! - N10. If the server requires TLS, it answers only STARTTLS before it, and reveals no name of an export.
//! - N11. Nothing received in the clear counts under TLS: bytes that arrive early end the connection.
//! - N12. A client whose address is not allowed is rejected before any byte is exchanged.
//! - N13. Clients over TCP and clients over Unix sockets use separate places: neither group can exclude the other. A
//!   client that has not chosen an export excludes no other client.
//! - N14. Lent data is sent while neither pin nor lock is held. A client that does not receive it keeps a bounded
//!   number of blocks from reuse, and delays no request. Each block that it receives is of one version.
//! - N15. Replies of all connections together hold at most 64 MiB beyond the memory of idle connections. If there is no
//!   room for a reply, the reply does not wait for others: it is read piece by piece while its client receives it.
//! - N16. If all places are used, a new client gets the place of the connection that has waited longest for its client.
//!   The wait must have lasted a minute or more. Connections of attached nodes use no place.
//! - N17. If the disk has a queue, many requests of a connection are in flight, and replies are in the order in which
//!   requests end. A request that does not end delays no other before the bounds of N18 are reached, except a simple
//!   reply of more than 4 MiB, BLOCK_STATUS and requests of no bytes: the connection's thread does these alone.
//! - N18. At most 128 requests to the disk and 16 MiB of their buffers are in flight for a connection. Beyond 512 KiB the
//!   buffers are part of the 64 MiB of N15. At a bound the server receives no more until a request ends.
//! - N19. A request that is cut into pieces is answered when its last piece has ended, with the first failure if one
//!   failed. With FUA every piece is durable. A flush goes to the queue at once: it covers the writes answered before it.
//! - N20. A session ends after its requests in flight have ended. A client that disconnects gets its replies first,
//!   and so does every client of a server that stops. Afterwards no queue, no buffer and no share of the budget is left.

mod agreed;
mod budget;
pub mod client;
mod command;
pub mod consts;
pub mod errno;
mod export;
mod handshake;
mod in_flight;
mod inbox;
mod lending;
mod listener;
mod network;
mod outbox;
mod peer;
mod queued;
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
