//! Reads and overwrites that the owner does for clients, because pages are on SSDs.
//!
//! FG13 (`share.rs`) is kept here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::planted;

use crate::file::{read, write};
use crate::share::layout::request::LeaseAccess;
use crate::share::layout::shared_state::{TRANSFER_AREAS, TRANSFER_BYTES};
use crate::share::sessions::refused;
use crate::share::shared_files::SharedFiles;
use crate::{Ino, Result};

const _: () = assert!(TRANSFER_AREAS == u64::BITS as usize);

/// The transfer areas of the shared state that sessions use, as bits.
#[derive(Debug, Default)]
pub(crate) struct TransferAreas(Arc<AtomicU64>);

/// The transfer area of a session. The area is free again when the session and all of its requests have ended.
#[derive(Debug)]
pub(crate) struct SessionArea {
    used: Arc<AtomicU64>,
    pub index: usize,
}

impl TransferAreas {
    /// Returns an area that no session uses, or `None` if all are in use.
    pub fn allocate(&self) -> Option<Arc<SessionArea>> {
        let lowest_free = |used: u64| (used != u64::MAX).then(|| used | (used + 1));
        let used = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lowest_free).ok()?;
        Some(Arc::new(SessionArea { used: Arc::clone(&self.0), index: used.trailing_ones() as usize }))
    }
}

impl Drop for SessionArea {
    fn drop(&mut self) {
        self.used.fetch_and(!(1 << self.index), Ordering::SeqCst);
    }
}

impl SharedFiles {
    /// Reads up to `bytes` bytes of `ino` from byte `at` on into the transfer area of `session`. Returns how many: fewer
    /// than fit only at the end of the file. Pages come back into the pool as those of other reads do (TI20).
    pub(crate) fn read_for(&self, session: u64, ino: Ino, at: u64, bytes: u64) -> Result<usize> {
        let area = self.transfer_area(session, ino)?;
        let mut content = vec![0; bytes.min(TRANSFER_BYTES as u64) as usize];
        let read = read::read(self, ino, at, &mut content)?;
        match self.space.shared_state.store_transfer(area.index, &content[..read]) {
            Some(()) => Ok(read),
            None => refused("the file system has no transfer areas"),
        }
    }

    /// Writes the `bytes` bytes in the transfer area of `session` over those of `ino` from byte `at` on (FG13).
    pub(crate) fn overwrite_for(&self, session: u64, ino: Ino, at: u64, bytes: u64) -> Result<()> {
        let area = self.transfer_area(session, ino)?;
        let mut content = vec![0; bytes.min(TRANSFER_BYTES as u64 + 1) as usize];
        if self.space.shared_state.load_transfer(area.index, &mut content).is_none() {
            return refused("the bytes are more than a transfer area has");
        }
        planted!("fs: overwrite asked for" => ());
        write::overwrite(self, ino, at, &content, || self.ensure_may_write(session, ino))
    }

    /// Returns the transfer area of `session`, which has a lease on `ino`.
    fn transfer_area(&self, session: u64, ino: Ino) -> Result<Arc<SessionArea>> {
        let table = self.sessions.table.lock();
        let area = table.sessions.get(&session).and_then(|session_entry| session_entry.area.clone());
        match area.filter(|_| table.leases.contains_key(&(ino.0, session))) {
            Some(area) => Ok(area),
            None => refused("the session has no lease on this file, or no transfer area"),
        }
    }

    /// Refuses unless `session` may write to `ino`, whose lock is held.
    fn ensure_may_write(&self, session: u64, ino: Ino) -> Result<()> {
        planted!("fs: overwrite by an ended lease" => return Ok(()));
        let table = self.sessions.table.lock();
        match table.leases.get(&(ino.0, session)) {
            Some(entry) if entry.access >= LeaseAccess::Write => Ok(()),
            _ => refused("the session may not write to this file"),
        }
    }
}
