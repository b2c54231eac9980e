//! Who owns a pool, and how everybody else reaches the owner.
//!
//! One process owns a pool: the one that holds the lock on its file. It listens on a Unix socket beside the pool, so
//! that a second command asks the owner instead of failing.
//!
//! ```text
//!   pool.ferrite        flock(LOCK_EX), gone with the process
//!   pool.ferrite.sock   mode 0600; made and removed by the lock's holder alone
//!
//!   client                               owner
//!     |  connect                           |   who is it: SO_PEERCRED, SO_PEERPIDFD
//!     |  <--------------- hello or refused |   which file is locked: device, inode
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
//! - O1. At most one process holds the lock of a pool, and it is free as soon as that process has ended, however, and
//!   whatever children it leaves.
//! - O2. Only the lock's holder makes the socket and removes a stale one. What somebody listens on stays, and the owner
//!   takes its next place; a client passes by a socket whose process is known not to hold the pool's lock, or has locked
//!   another file: that was called so before, and still is served.
//! - O3. Only the same user or root is served, and a client speaks only to the same user, root, or the file's user.
//! - O4. No client, whatever it sends, omits to send or omits to read, delays another client or stops the owner: each
//!   has its own thread, a bounded frame, a bounded time for a frame once begun, and a bounded number of connections.
//!   What is waited for once a connection has ended is given up when the owner stops.
//! - O5. A call is answered once, or its connection ends; calls on one connection are answered in order.
//! - O6. Either all file descriptors sent with a frame arrive with it, or the call fails and none stays open.
//! - O7. Who is at the other end does not change: its process is known by a descriptor, not by a number that may be
//!   reused, and when it has ended its end is closed, whoever else has that.
//! - O8. A process opens a pool, connects to a pool's owner, or reads an image only if the opened file belongs to its
//!   effective user or to root, and neither group nor others may write to it, unless its user trusts those.

pub mod access;
mod address;
mod channel;
mod client;
mod command_spec;
mod door;
mod error;
pub mod lease;
mod listen;
pub mod machine;
mod namespace_check;
mod parted;
pub mod paths;
mod pool_memory;
mod pool_owner;
mod private;
mod progress_io;
mod registry;
mod reports;
mod rights;
mod seats;
mod service;
pub mod services;
mod session;
mod socket;
mod steps;
mod whole;
pub mod wire;

#[cfg(test)]
mod tests;

use ferrite_pool::Progress;

pub use access::PoolAccess;
pub use client::{Client, ServiceRequest, TypedRequest};
pub use command_spec::{ArgumentKind, ArgumentSpec, ColumnKind, ColumnSpec, CommandSpec};
pub use error::{Error, Result};
pub use listen::{Limits, Listening};
pub use namespace_check::{NamedPlaces, NamespaceView};
pub use parted::Parted;
pub use pool_memory::{CountedMemory, PoolMemory};
pub use pool_owner::{EndedOwner, OWN_CONNECTION, PoolOwner};
pub use private::{RUN_FOLDER, make_folder as make_private_folder};
pub use progress_io::WatchedFiles;
pub use registry::{Registry, RunningServices};
pub use reports::{
    PoolReport, SurvivalAnswer, SurvivalReport, SurvivalState, TagReport, TallyReport, WearReport, space_bytes,
};
pub use service::{Metric, Removal, RunningService, Service, ServicePool};
pub use session::{Call, Handler, Reply};

/// A function that hears how far long work has come. It returns false to stop the work.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> bool;
