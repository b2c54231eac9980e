//! One process owns a pool, and other processes share the pool through it.
//!
//! The owner is the process that holds the lock on the pool's file. It listens on a Unix socket beside the pool, so that a
//! second process asks the owner. [`PoolAccess`] is the one way to a pool, [`Service`] and [`ServiceRegistry`] are the
//! services that a program links, and [`PoolOwner`] runs them.
//!
//! ```text
//!   pool.ferrite        flock(LOCK_EX), gone with the process
//!   pool.ferrite.sock   mode 0600; made and removed by the lock's holder alone
//!
//!   client                               owner
//!     |  connect                           |   the peer: SO_PEERCRED, SO_PEERPIDFD
//!     |  <--------------- hello or refused |   the locked file: device, inode
//!     |  hello --------------------------> |
//!     |  call  --------------------------> |   (file descriptors may ride on it)
//!     |  <------------------ progress  ... |
//!     |  <----------------- reply or failed|   (file descriptors may ride on it)
//!     |  call  ... in order, any number    |
//!
//!   frame:  0        4                      4 + n
//!           | n: u32 | n bytes of JSON      |       1 <= n <= 1 MiB, little-endian
//! ```
//!
//! Invariants:
//! - O1. At most one process holds the lock of a pool. The lock is free as soon as that process has ended, however it ended,
//!   and even if children of it live on.
//! - O2. Only the lock's holder makes the socket and removes a stale one. A socket on which a process listens stays, and the
//!   owner uses its next place. A client skips a socket if its process is known not to hold the pool's lock, or has locked
//!   another file: that file had the name before, and is still served.
//! - O3. Only the same user or root is served, and a client speaks only to the same user, root, or the file's user.
//! - O4. No client delays another client or stops the owner, whatever the client sends or fails to send or to read: each
//!   client has its own thread, a bounded frame, a bounded time for a frame once begun, and a bounded number of connections.
//!   A wait for the end of a client's process is aborted when the owner stops.
//! - O5. A call is answered once, or its connection ends; calls on one connection are answered in order.
//! - O6. Either all file descriptors sent with a frame arrive with it, or the call fails and none stays open.
//! - O7. The process at the other end does not change: it is known by a descriptor, not by a number that may be reused.
//!   When the process has ended the connection ends, even if another process has the socket.
//! - O8. A process opens a pool, connects to a pool's owner, or reads an image only if the opened file belongs to its
//!   effective user or to root, and neither group nor others may write to it, unless its user trusts those.

mod acceptor;
pub mod access;
mod channel;
mod client;
mod client_session;
mod command_spec;
mod connection_count;
mod ended_connection;
mod error;
pub mod lease;
mod listening;
pub mod machine;
mod metric;
mod metric_text;
mod namespace_check;
mod passed_fds;
pub mod paths;
mod pool_memory;
mod pool_metrics;
mod pool_owner;
mod progress_io;
mod registry;
mod reports;
mod request_metrics;
mod run_folder;
mod service;
pub mod services;
mod socket;
mod socket_place;
mod steps;
mod uncancelled;
pub mod wire;

#[cfg(test)]
mod tests;

use ferrite_pool::Progress;

pub use access::PoolAccess;
pub use client::{OwnerClient, ServiceRequest, TypedRequest};
pub use client_session::{Handler, ServiceCall, ServiceReply};
pub use command_spec::{ArgumentKind, ArgumentSpec, ColumnKind, ColumnSpec, CommandSpec};
pub use ended_connection::EndedConnection;
pub use error::{Error, Result};
pub use listening::{ListenLimits, ListeningSocket};
pub use metric::{Metric, MetricKind, MetricSample, MetricValue};
pub use metric_text::{METRICS_PREFIX, METRICS_TYPE, metrics_text};
pub use namespace_check::{NamedPlaces, NamespaceView};
pub use pool_memory::{CountedMemory, PoolMemory};
pub use pool_owner::{EndedOwner, OWN_CONNECTION, PoolOwner};
pub use progress_io::WatchedFiles;
pub use registry::{RunningServices, ServiceRegistry};
pub use reports::{
    KeptReport, PoolReport, SurvivalAnswer, SurvivalReport, SurvivalState, TagReport, TallyReport, WearReport,
    space_bytes,
};
pub use request_metrics::{RequestMetrics, lease_metrics};
pub use run_folder::{RUN_FOLDER, make_folder as make_private_folder};
pub use service::{HeldOutside, Removal, RunningService, Service, ServicePool};

/// A function that hears how far long work has come. It returns false to stop the work.
pub type ProgressCall<'a> = &'a mut dyn FnMut(Progress) -> bool;
