//! What clients ask the owner for.

use ferrite_pool::grant::GrantId;
use serde::{Deserialize, Serialize};

/// The name of the service on the wire.
pub const SHARE: &str = "share";

/// The rights of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseAccess {
    /// Read.
    Read,
    /// And write over what is there.
    Write,
    /// Read, and write behind the end, while no other client writes.
    Append,
}

/// A request of a client to the owner of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum ClientRequest {
    /// A session; with it come the pool's memory, the shared state, and a notice that hangs up when the owner ends.
    DirectOpen {
        /// The file system.
        name: String,
        /// The layout of the shared state and of inodes that the client knows.
        #[serde(default)]
        layout: u32,
        /// All sessions by which its process may still store, if it knows them.
        #[serde(default)]
        held: Option<Vec<GrantId>>,
    },
    /// A lease on an inode, or a greater one in the place of that which the session has.
    DirectLease {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
        /// The right to acquire.
        access: LeaseAccess,
        /// Bytes of pages to reserve behind the end, for a lease to append, if there is space.
        #[serde(default)]
        ahead_bytes: u64,
        /// The ends that the owner spoke of, when the kernel was asked for the size and waited for since (FG8, FG11).
        #[serde(default, rename = "told")]
        seen_ends: Option<u32>,
    },
    /// Pages behind the end of a file that the session may append to.
    DirectAhead {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
        /// The bytes to reserve.
        bytes: u64,
    },
    /// Reads a file that the session has a lease on into the session's transfer area: some of its pages are on SSDs.
    /// The answer is the number of bytes, smaller than asked for only at the end of the file.
    DirectRead {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
        /// The first byte.
        at: u64,
        /// The number of bytes; a larger number than the area has counts as that.
        bytes: u64,
    },
    /// Writes the bytes in the session's transfer area over bytes of a file that the session may write to.
    DirectOverwrite {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
        /// The first byte.
        at: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// Cuts a file that the session may write to, or grows it by a hole.
    DirectResize {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
        /// Bytes of the file afterwards.
        size: u64,
    },
    /// Gives a lease back.
    DirectReturn {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
        /// The inode.
        ino: u64,
    },
    /// A session of an owner before this one has ended: the caller's process has nothing of it any more.
    DirectLetGo {
        /// The file system.
        name: String,
        /// The session to release.
        session: GrantId,
    },
    /// Makes all written data durable, for any file and writer; needs no session.
    #[serde(rename = "direct-settle")]
    DirectFlush {
        /// The file system.
        name: String,
        /// The mount that they were written to, by its device number; another server's may be called so, too.
        #[serde(default)]
        device: Option<u64>,
    },
    /// Ends the session, and all its leases.
    DirectClose {
        /// The file system.
        name: String,
        /// The session.
        session: GrantId,
    },
}

impl ClientRequest {
    /// The file system that it is about.
    pub fn file_system(&self) -> &str {
        match self {
            Self::DirectFlush { name, .. }
            | Self::DirectOpen { name, .. }
            | Self::DirectLease { name, .. }
            | Self::DirectAhead { name, .. }
            | Self::DirectRead { name, .. }
            | Self::DirectOverwrite { name, .. }
            | Self::DirectResize { name, .. }
            | Self::DirectReturn { name, .. }
            | Self::DirectLetGo { name, .. }
            | Self::DirectClose { name, .. } => name,
        }
    }
}

/// The answer to a request for a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The session.
    pub session: GrantId,
    /// The offset of the pool in the file that came along.
    pub offset: u64,
    /// Whether the client may store.
    pub writable: bool,
    /// The device number of the mount, as `stat` returns it for each file.
    #[serde(default)]
    pub device: Option<u64>,
    /// The layout of the shared state and of inodes.
    #[serde(default)]
    pub layout: u32,
    /// The transfer area of the session, if the file system has a tier and an area is free.
    #[serde(default)]
    pub transfer_area: Option<u32>,
}

/// The answer to a request for a lease.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LeaseAnswer {
    /// The lease was granted.
    Granted(GrantedLease),
    /// The kernel may not know the end of the file and must ask for the size first (FG8), or it is appending (FG11).
    Behind {
        /// How many appends have ended.
        ends: u32,
    },
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GrantedLease {
    /// Its slot among the shared words.
    pub slot: u32,
    /// Distinguishes the lease from earlier ones in the same place.
    pub serial: u64,
    /// The granted right.
    pub access: LeaseAccess,
    /// Whether the pages came along that were asked for with it.
    #[serde(default)]
    pub has_ahead: bool,
}
