//! Clients as the store sees them: processes beside the owner that read and write files directly.
//!
//! The store, the files and the tree know clients by this trait alone; `share` implements it.

use std::fmt::Debug;

use crate::Ino;
use crate::store::locks::Stripe;

/// A client that may append to a file.
#[derive(Clone, Copy, Debug)]
pub struct Appender {
    pub ino: Ino,
    /// The place of its lease among the shared words.
    pub slot: usize,
    pub serial: u64,
}

/// A client that lost the end of a file in the middle of an append.
#[derive(Clone, Copy, Debug)]
pub struct RevokedAppend {
    pub ino: Ino,
    pub slot: usize,
    /// Which of the client's appends it was.
    pub turn: u64,
}

/// The clients of a file system.
pub trait Clients: Debug + Send + Sync {
    /// Returns true if there is any session.
    fn has_sessions(&self) -> bool;

    /// Returns true if clients of an earlier owner may still store (FG5).
    fn has_orphaned_clients(&self) -> bool;

    /// Returns true if a client did not end its pin in time, and is still pinned.
    fn is_stuck(&self) -> bool;

    /// Returns true if a client that did not end its pin in time may still use pages of a file with the lock `stripe`, or
    /// of any file if it is `None` (TI21).
    fn holds_back(&self, stripe: Option<u64>) -> bool;

    /// Passes a barrier: a store of a client after it is checked against all that this thread stored before (FG3).
    fn pass(&self);

    /// Waits until no thread has a pin that it had before this call. Returns false if a client still has one.
    fn wait_for_pins(&self) -> bool;

    /// Waits until no thread that may store to a file with the lock `stripe` has a pin that it had before this call.
    /// Returns false if a client still has one (TI21).
    fn wait_for_pins_on(&self, stripe: u64) -> bool;

    /// Keeps `appenders` from appending. Clients that stopped in the middle lose the right, and are returned (FG7).
    fn suspend_appends(&self, appenders: &mut Vec<Appender>) -> Vec<RevokedAppend>;

    /// Allows `appenders` to append again.
    fn resume_appends(&self, appenders: &[Appender]);

    /// Makes what a client that lost the end of a file may still do there void (FG7). The file is locked.
    fn invalidate_revoked_append(&self, stripe: &mut Stripe, revoked: RevokedAppend);

    /// Stores the times that clients noted of `ino` to its inode.
    fn fold_times(&self, ino: Ino);

    /// Has copies of the attributes of `ino` dropped by the next step. The caller may have any lock.
    fn note_stale(&self, ino: Ino);
}
