//! What can go wrong with a pool.

use ferrite_memory::ByteCount;

use crate::{Failure, FailureKind};

/// Result of an operation on a pool.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a pool. Every message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// There is no pool there.
    #[error(
        "not a Ferrite pool: {0}; `ferrite pool create` makes one, `ferrite pool restore` brings back one that was there"
    )]
    NotAPool(String),
    /// It was made by a Ferrite of another format, mostly a newer one.
    #[error(
        "the pool has format version {found}, this program knows versions 1 to {known}: use a ferrite that knows it"
    )]
    Version {
        /// Version in the superblock.
        found: u32,
        /// Newest version known here.
        known: u32,
    },
    /// Bytes that the pool wrote are not what it wrote.
    #[error("{what} at byte {at:#x} of the pool is corrupt: run `ferrite pool check`, or restore a backup")]
    Corrupt {
        /// What is corrupt.
        what: String,
        /// Where it lies in the pool.
        at: u64,
    },
    /// The file is shorter than the pool in it.
    #[error(
        "the pool was made with {} and only {} are there: it was truncated; restore a backup",
        shown(.expected), shown(.found)
    )]
    Truncated {
        /// Bytes the superblock promises.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A restore into this pool did not finish.
    #[error("a restore into this pool did not finish: run the same `ferrite pool restore` again")]
    Restoring,
    /// The name is taken.
    #[error("there is a tag called {0:?} already")]
    Exists(String),
    /// There is no such tag.
    #[error("there is no tag called {0:?}: see `ferrite tag list`")]
    NotFound(String),
    /// Names are 1 to 255 bytes of UTF-8 without control characters.
    #[error("{0:?} is no name: 1 to 255 bytes of UTF-8, no control characters")]
    BadName(String),
    /// The tag is of another kind.
    #[error("tag {name:?} is of kind {found}, not {wanted}")]
    WrongKind {
        /// Its name.
        name: String,
        /// The kind it has.
        found: &'static str,
        /// The kind that was asked for.
        wanted: &'static str,
    },
    /// The content of a value is not what was put.
    #[error("the value of tag {0:?} is damaged: put it again, or restore a backup")]
    DamagedValue(String),
    /// The tag was replaced or removed under a reader.
    #[error("tag {0:?} was replaced or removed while it was read: read it again")]
    Changed(String),
    /// A backup image is not whole.
    #[error("the backup image is damaged: {what} at byte {at}; use another image")]
    BadImage {
        /// What is wrong.
        what: String,
        /// Where, in bytes from the start of the image.
        at: u64,
    },
    /// A restore would destroy what is there.
    #[error("{0}")]
    Occupied(String),
    /// The pool is full.
    #[error(
        "the pool is full: {} needed, {} free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), \
         or make it larger (`ferrite pool grow`)",
        shown(.needed_bytes), shown(.free_bytes)
    )]
    Full {
        /// Bytes asked for.
        needed_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// A log is full.
    #[error(
        "log {name:?} is full: {} needed, {} of {} free: cut it first",
        shown(.needed_bytes), shown(.free_bytes), shown(.capacity_bytes)
    )]
    LogFull {
        /// Its name.
        name: String,
        /// Bytes that the records take, their headers included.
        needed_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
        /// Bytes in all.
        capacity_bytes: u64,
    },
    /// What was asked of a member cannot be.
    #[error("{0}")]
    Member(String),
    /// A request exceeds a limit.
    #[error("{0}")]
    Limit(String),
    /// Another user could have made it or could change it.
    #[error("{0}")]
    Untrusted(String),
    /// The tag is in use.
    #[error("{0}")]
    Busy(String),
    /// The process that owns the pool did not do what was asked.
    #[error(transparent)]
    Owner(Failure),
    /// The process that owns the pool has ended.
    #[error(
        "the process that owns the pool has ended; whether it did what was asked is not known: close the pool, open it \
         again, and look"
    )]
    OwnerEnded,
    /// The caller's progress function said stop.
    #[error("{0} was stopped before its end: run it again")]
    Cancelled(&'static str),
    /// An earlier persist failed.
    #[error("the pool is poisoned by a failed persist ({0}): nothing more is promised until it is opened again")]
    Poisoned(String),
    /// What another process owns is no longer lent to this one: why.
    #[error(
        "it is no longer this process's to change ({0}); what was done is durable: close it and open the pool again"
    )]
    Revoked(String),
}

/// `bytes` in the unit that the tables of commands have.
fn shown(bytes: &u64) -> ByteCount {
    ByteCount(*bytes)
}

impl Error {
    /// Whether it says that there is no room, in the pool or on its host.
    pub fn is_want_of_space(&self) -> bool {
        self.kind() == FailureKind::Full
    }

    /// Bytes at `at` that are not what the pool wrote.
    pub(crate) fn corrupt(what: impl Into<String>, at: u64) -> Self {
        Self::Corrupt { what: what.into(), at }
    }
}
