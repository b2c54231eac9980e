//! The errors of a pool.

use ferrite_memory::ByteCount;

use crate::{Failure, FailureKind};

/// Result of an operation on a pool.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on a pool failed. Every message says what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The memory holds no pool.
    #[error(
        "not a Ferrite pool: {0}; `ferrite pool create` makes one, `ferrite pool restore` restores one from an image"
    )]
    NotAPool(String),
    /// The pool was made by a Ferrite of another format version, usually a newer one.
    #[error("the pool has format version {found}, this program knows versions 1 to {known}: use a newer ferrite")]
    Version {
        /// The version in the superblock.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// Bytes of the pool are not the bytes that the pool wrote.
    #[error("{what} at byte {at:#x} of the pool is corrupt: run `ferrite pool check`, or restore a backup")]
    Corrupt {
        /// The damaged structure.
        what: String,
        /// Its byte offset in the pool.
        at: u64,
    },
    /// The file or device is shorter than the pool in it.
    #[error(
        "the pool was made with {} but the file has only {}: it was truncated; restore a backup",
        shown(.expected), shown(.found)
    )]
    Truncated {
        /// The size of the pool in bytes, by the superblock.
        expected: u64,
        /// The size of the file or device in bytes.
        found: u64,
    },
    /// An earlier restore into this pool did not finish.
    #[error("a restore into this pool did not finish: run the same `ferrite pool restore` again")]
    Restoring,
    /// A tag has the name already.
    #[error("a tag called {0:?} already exists")]
    Exists(String),
    /// No tag has the name.
    #[error("there is no tag called {0:?}: see `ferrite tag list`")]
    NotFound(String),
    /// The string cannot be a name. Names are 1 to 255 bytes of UTF-8 without control characters.
    #[error("{0:?} is not a valid name: 1 to 255 bytes of UTF-8, no control characters")]
    BadName(String),
    /// The tag is of another kind.
    #[error("tag {name:?} is of kind {found}, not {wanted}")]
    WrongKind {
        /// The name of the tag.
        name: String,
        /// The tag's kind.
        found: &'static str,
        /// The kind that the caller asked for.
        wanted: &'static str,
    },
    /// The content of a value is not the content that was stored.
    #[error("the value of tag {0:?} is damaged: put it again, or restore a backup")]
    DamagedValue(String),
    /// Another caller replaced or removed the tag during a read.
    #[error("tag {0:?} was replaced or removed while it was read: read it again")]
    Changed(String),
    /// A backup image is damaged or cut off.
    #[error("the backup image is damaged: {what} at byte {at}; use another image")]
    BadImage {
        /// The damaged part.
        what: String,
        /// Its byte offset from the start of the image.
        at: u64,
    },
    /// The operation would destroy content without the user's consent.
    #[error("{0}")]
    Occupied(String),
    /// The pool has too little free space.
    #[error(
        "the pool is full: {} needed, {} free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), \
         or make it larger (`ferrite pool grow`)",
        shown(.needed_bytes), shown(.free_bytes)
    )]
    Full {
        /// The bytes asked for.
        needed_bytes: u64,
        /// The bytes that are free.
        free_bytes: u64,
    },
    /// A log has too little free space.
    #[error(
        "log {name:?} is full: {} needed, {} of {} free: cut it first",
        shown(.needed_bytes), shown(.free_bytes), shown(.capacity_bytes)
    )]
    LogFull {
        /// The name of the log.
        name: String,
        /// The bytes that the records take, their headers included.
        needed_bytes: u64,
        /// The bytes that are free.
        free_bytes: u64,
        /// The size of the log in bytes.
        capacity_bytes: u64,
    },
    /// The operation on a member is not possible.
    #[error("{0}")]
    Member(String),
    /// A request exceeds a limit.
    #[error("{0}")]
    Limit(String),
    /// Another user could have made the file or could change it.
    #[error("{0}")]
    Untrusted(String),
    /// The tag is in use.
    #[error("{0}")]
    Busy(String),
    /// The process that owns the pool refused a request or failed to serve it.
    #[error(transparent)]
    Owner(Failure),
    /// The process that owns the pool has ended.
    #[error(
        "the process that owns the pool has ended; it is not known whether it completed the request: close the pool, open it again, and check"
    )]
    OwnerEnded,
    /// The caller's progress function returned false.
    #[error("{0} was stopped before its end: run it again")]
    Cancelled(&'static str),
    /// An earlier persist failed.
    #[error("the pool is poisoned by a failed persist ({0}): nothing more is promised until it is opened again")]
    Poisoned(String),
    /// Another process owns the object and no longer lends it to this one. The string is the reason.
    #[error(
        "this process may no longer change it ({0}); earlier changes are durable: close it and open the pool again"
    )]
    Revoked(String),
}

/// Returns `bytes` in the unit that the tables of commands use.
fn shown(bytes: &u64) -> ByteCount {
    ByteCount(*bytes)
}

impl Error {
    /// Returns true if the pool or its host has too little free space.
    pub fn is_want_of_space(&self) -> bool {
        self.kind() == FailureKind::Full
    }

    /// Returns the error for a structure at byte `at` that is not as the pool wrote it.
    pub(crate) fn corrupt(what: impl Into<String>, at: u64) -> Self {
        Self::Corrupt { what: what.into(), at }
    }
}
