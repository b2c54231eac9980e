//! Calls of a front end for clients that share the files, and for a kernel that caches them.

use std::sync::Arc;

use ferrite_owner::ServiceReply;
use ferrite_pool::Caller;

use super::FileSystem;
use crate::share::layout::request::ClientRequest;
use crate::share::sessions::CachedCopies;
use crate::{Ino, Result};

impl FileSystem {
    /// Does what a client asks; `boot_id` is this boot of the machine.
    ///
    /// # Errors
    /// Why not, in words for people.
    pub fn answer(&self, boot_id: [u8; 16], caller: &Caller, request: &ClientRequest) -> Result<ServiceReply> {
        self.shared.answer(boot_id, caller, request)
    }

    /// Sets the holder of cached copies, which must drop a copy before a client may change the file.
    pub fn set_copies(&self, copies: Arc<dyn CachedCopies>) {
        self.shared.set_copies(copies)
    }

    /// Drops the cached copies of `ino` in the background, because they hold bytes at a place that has moved. A thread
    /// that made such a copy may be waiting for the caller.
    pub fn forget_copies(&self, ino: Ino) {
        self.shared.forget_copies(ino)
    }

    /// Lets copies of the attributes of `ino` be forgotten, which are about to be other ones.
    pub fn forget_attributes(&self, ino: Ino) {
        self.shared.forget_attributes(ino)
    }

    /// Ends the sessions that came by `connection`, which has ended, as far as their threads let them.
    pub fn end_sessions_of(&self, connection: u64) {
        self.shared.end_sessions_of(connection)
    }

    /// Ends every session: clients see that the owner is gone. The file system must not be in use any more. Pages
    /// ahead of appends are freed, except while the pool stands still (FX1, FX2).
    pub fn dismiss(&self) {
        self.shared.dismiss()
    }

    /// The processes that keep what is free from being used, as they may still store to it (FG5).
    pub fn awaited_processes(&self) -> Vec<u32> {
        self.shared.awaited_processes()
    }

    /// The kernel appends to `ino`, and this request may not be all of that: before a client may append, it makes sure
    /// that it is over (FG11). To be called before clients lose their rights to write.
    pub fn expect_more(&self, ino: Ino) {
        self.shared.expect_more(ino)
    }

    /// Returns true if clients may store to `ino`: attributes read now may be out of date at once.
    pub fn is_written_directly(&self, ino: Ino) -> bool {
        self.shared.is_written_directly(ino)
    }

    /// Limits all leases on `ino` to reads, because a copy of the file is about to be made, or the file is about to
    /// change (FG6).
    pub fn end_writing(&self, ino: Ino) {
        self.shared.end_writing(ino)
    }
}
