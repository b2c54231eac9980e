//! Grants: parts of the pool that other processes read or write directly.
//!
//! A client that reads or writes without asking the owner each time gets a grant: some pages of a tag, and a descriptor
//! to map them through. Clients are trusted with bytes, never with liveness: a client that is stopped, or killed
//! without notice, may keep its mapping for as long as it exists.
//!
//! ```text
//! slot      0 crc u32    4 rights u32    8 serial u64   16 tag generation u64   24 pid u32   28 pid namespace u32
//!           32 start u64 (ticks after boot)   40 boot id [16]   56 extents u32   60 reserved u32
//!           64 overflow u64   72 reserved u64   80 extent[3]
//! overflow  as a tag's
//! ```
//!
//! A slot of zeros is free. The extents are runs of granted pages, neighbours joined.
//!
//! - G1. A grant is on the medium before its client knows of it. So after a crash of the owner, every process that may
//!   still access pages is known.
//! - G2. Pages under a live grant are not allocated again, even if their tag is removed. Pages that are freed under a
//!   grant are free on the medium and held in DRAM; recovery holds them again before anything is allocated.
//! - G3. A grant ends only when its client releases it or its process has ended. Its slot and its overflow pages are
//!   freed in one transaction; pages that were held for it are free after that.
//! - G5. A process is never mistaken for a later one with the same number: it is identified by its pid, pid namespace,
//!   start time and boot, and by a descriptor while the owner lives. A process whose state is unknown counts as living.
//! - G6. Nothing here waits for a client. A revocation is a request, and a caller that needs the pages fails or
//!   retries.
//!
//! Locks are acquired in this order: a transaction's pass, the tag table, the grants, the allocator.

mod coverage;
pub(crate) mod grants;
mod process_identity;
mod register;
mod remaining_clients;
pub(crate) mod slot;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ferrite_memory::{Memory, Shared, Span};

use crate::caller::Caller;
use crate::extent::Extent;
use crate::pool::Pool;
use crate::transaction::Transaction;
use crate::{Error, Result, overflow};

use coverage::Coverage;
use register::LiveGrant;
use slot::GrantRecord;

pub use grants::Grants;
pub use process_identity::{Process, ProcessIdentity};
pub use register::StandingGrant;
pub use remaining_clients::ensure_no_clients;
pub(crate) use slot::disown;
pub use slot::{GrantId, GrantRequest, GrantRights, SLOT_BYTES, decode_slot};

/// The time that a process may take to end after its last connection has ended.
const ENDING: Duration = Duration::from_secs(1);

/// A new grant, for its client.
#[derive(Debug)]
pub struct Granted {
    /// The identity of the grant.
    pub id: GrantId,
    /// The client's end of a pipe: readable when the grant is revoked, hung up when the owner has ended.
    pub notice: OwnedFd,
    rights: GrantRights,
}

impl Granted {
    /// Returns all of `memory` as a descriptor with the rights of the grant. The file is opened again, so that the
    /// client does not share the owner's lock, which has to end with the owner.
    ///
    /// # Errors
    /// [`Error::Medium`] if the memory cannot be shared or opened again.
    pub fn share(&self, memory: &dyn Memory) -> Result<Shared> {
        let shared = memory.share(Span::new(0, memory.size()))?;
        match self.rights {
            GrantRights::ReadWrite => Ok(shared),
            GrantRights::Read => Ok(Shared { fd: process_identity::reopen_to_read(&shared.fd)?, ..shared }),
        }
    }
}

impl Grants {
    /// Ends grant `id`, because its client has returned it or its process has ended. Durable on return (G3).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the grant has ended, [`Error::Busy`] while another thread gives or ends it; else as
    /// [`Pool`] says.
    pub fn release(&self, pool: &Pool, id: GrantId) -> Result<()> {
        let mut transaction = pool.transaction();
        {
            let mut register = self.0.lock();
            let live = register.find(id)?;
            if std::mem::replace(&mut live.in_doubt, true) {
                return Err(Error::Busy(format!("grant {id} is already being given or ended")));
            }
            transaction.write(live.slot, &[0; SLOT_BYTES]);
            transaction.free(&live.overflow);
        }
        let committed = transaction.commit();
        let mut register = self.0.lock();
        match committed {
            Ok(()) => register.finish(pool.space(), id),
            Err(_) => register.find(id)?.in_doubt = false,
        }
        committed
    }

    /// Ends the grants of processes that have ended. Returns their number. Call this when a client has ended, and when
    /// space runs out.
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn reap(&self, pool: &Pool) -> Result<usize> {
        let ended: Vec<GrantId> = {
            let register = self.0.lock();
            let ended = register.live.iter().filter(|(_, live)| !live.in_doubt && !live.process.is_alive());
            ended.map(|(id, _)| *id).collect()
        };
        ended.iter().try_for_each(|id| match self.release(pool, *id) {
            // Another thread was faster.
            Err(Error::Busy(_) | Error::NotFound(_)) => Ok(()),
            other => other,
        })?;
        Ok(ended.len())
    }

    /// Reaps as [`Grants::reap`] does, after a connection of `caller` has ended, which `was_last` of its process. If the
    /// process has grants, waits up to a second for it to end. `ends_within` returns whether the process ends within a
    /// limit.
    ///
    /// # Errors
    /// As [`Grants::reap`].
    pub fn reap_behind(
        &self,
        pool: &Pool,
        caller: &Caller,
        was_last: bool,
        ends_within: impl FnOnce(Duration) -> bool,
    ) -> Result<usize> {
        let is_awaited = was_last && self.0.lock().has_some(caller.pid);
        let limit = if is_awaited { ENDING } else { Duration::ZERO };
        if ends_within(limit) { self.reap(pool) } else { Ok(0) }
    }
}

impl Pool {
    /// Gives `ask.process` a grant. The grant is durable on return (G1); after an error it does not exist.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the name now belongs to another tag or to none, [`Error::Busy`] if the tag no longer has
    /// all the pages, [`Error::Limit`] if every slot is in use or the extents are too many. Else as [`Pool`] says.
    pub fn grant(&self, ask: &GrantRequest<'_>) -> Result<Granted> {
        if self.grants().is_full() {
            self.grants().reap(self)?;
        }
        let transaction = self.transaction();
        // Locked until the grant is in the register, so that a removal of the tag happens before it or sees it.
        let table = self.table();
        let entry = table.current(ask.tag)?;
        if !Coverage::of(&entry.tag.extents).contains(&Coverage::of(ask.extents)) {
            return Err(Error::Busy(format!("tag {:?} no longer has all the pages that were asked for", ask.tag.name)));
        }
        let (id, slot) = self.grants().0.lock().open_slot()?;
        let granted = record(self, transaction, ask, id, slot);
        if granted.is_err() {
            self.grants().0.lock().cancel(self.space(), id, slot);
        }
        granted
    }

    /// Gives a grant as [`Pool::grant`] does, with the memory for the client (see [`Granted::share`]). After an error
    /// there is no grant.
    ///
    /// # Errors
    /// As [`Pool::grant`] and as [`Granted::share`].
    pub fn lend(&self, ask: &GrantRequest<'_>) -> Result<(Granted, Shared)> {
        let granted = self.grant(ask)?;
        match granted.share(self.memory()) {
            Ok(shared) => Ok((granted, shared)),
            Err(error) => {
                self.grants().release(self, granted.id)?;
                Err(error)
            }
        }
    }
}

fn record(
    pool: &Pool,
    mut transaction: Transaction<'_>,
    ask: &GrantRequest<'_>,
    id: GrantId,
    slot: u64,
) -> Result<Granted> {
    let piping = |e: io::Error| Error::Medium(ferrite_memory::Error::io("making the notice of a grant", e));
    let (notice, bell) = io::pipe().map_err(piping)?;
    let record = GrantRecord::new(id, ask)?;
    let overflow = take_overflow(pool, &mut transaction, &record)?;
    transaction.write(slot, &record.encode(overflow.first().map_or(0, |page| page.span().at)));
    let mut live = LiveGrant::new(slot, ask.process.clone(), record, overflow);
    live.bell = Some(bell);
    // Otherwise a concurrent reap of a process that has already ended would commit the end before the beginning.
    live.in_doubt = true;
    pool.grants().0.lock().insert(id, live);
    transaction.commit()?;
    pool.grants().0.lock().find(id)?.in_doubt = false;
    Ok(Granted { id, notice: notice.into(), rights: ask.rights })
}

/// Takes pages for the extents that do not fit the slot, and stores the list durably before the slot refers to it.
fn take_overflow(pool: &Pool, transaction: &mut Transaction<'_>, record: &GrantRecord) -> Result<Vec<Extent>> {
    let rest = record.rest();
    let count = overflow::count(rest);
    if count == 0 {
        return Ok(Vec::new());
    }
    let pages = overflow::pages_of(&transaction.take(&[overflow::need(count)])?);
    overflow::store(pool.memory(), rest, &pages)?;
    Ok(pages)
}
