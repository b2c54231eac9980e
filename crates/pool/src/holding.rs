//! Tag leases: tags that this process stores into directly.
//!
//! ```text
//!   owner's process          another process
//!   Pool --- TagLease        RemoteTags --- TagLease      both: memory, streams, poison
//!              |                |  grant over the control socket, descriptor to map
//!              +--- tag's pages-+
//! ```
//!
//! A service that stores into a tag uses only a [`TagLease`], so it runs in the owner's process and beside it.
//!
//! - HO1. A tag has one lease at a time, in any process. The owner keeps a list of its own leases; grants on a tag
//!   count too, also grants of a killed owner.
//! - HO2. A leased tag is not removed, and only the holder of the lease changes its space.
//! - HO3. A tag is created with its MAP stream zero, and with an empty log if it holds one, before it gets its name. So
//!   a crash of the process that asked for it leaves a tag that can be leased. A widening adds zeros to a MAP stream.
//! - HO4. A lent lease refuses every change once its owner has ended or has revoked it. Its grant stays on the medium
//!   until the lease is dropped and an owner knows of that: until then no other process leases the tag, and its pages
//!   are not allocated, because a change that had begun may still be stored.
//! - HO5. After a failed persist a lease refuses changes until the tag is leased again; a lease of the owner refuses
//!   them until the pool is opened again.
//! - HO6. A widening adds space to every part or to none, also after a crash; existing space stays, with its content.
//! - HO7. A lease that outlives its owner ([`TagLease::outliving`]) refuses nothing when the owner ends. Only its holder
//!   uses the tag until the grant ends, and the grant stays on the medium: a later owner neither lends the tag nor
//!   allocates its pages.
//! - HO8. The holder of a lent tag asks the owner to free space of it, and uses none of that space any longer, whatever the
//!   answer is. The grant without the space begins before that with the space ends. So its pages are not allocated while the
//!   holder has a right to them.

mod lease_change;
mod lease_counters;
pub(crate) mod lease_words;
mod loan;
mod tag_counts;
mod tag_spec;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Weak};

use ferrite_memory::{Memory, RequestTiming, RequestWords, Scheme, Span, planted};
use parking_lot::Mutex;

use crate::extent::{Extent, Role, Stream};
use crate::freeze::{Freeze, StorePass};
use crate::grant::Process;
use crate::lock::Lock;
use crate::page_allocator::SpaceNeed;
use crate::poison::Poison;
use crate::tag::Tag;
use crate::{Error, FailureKind, Pool, Result, TagChange};

use lease_counters::OwnCounters;

pub use lease_counters::{LEASE_FIGURES, LEASE_OPS, LentCounters, SharedCounters};
pub use lease_words::LeaseWatch;
pub use loan::{Lent, Loan, Note, ensure_lendable, narrow_loan};
pub use tag_counts::TagCounts;
pub use tag_spec::{RoleSpace, TagSpec};

/// A tag that only this process stores into (HO1). Dropping this releases the tag.
///
/// An operation that changes the tag or makes it durable returns [`Error::Medium`] if a persist fails, and is refused
/// from then on ([`Error::Poisoned`], HO5). A lent lease that is no longer valid refuses with [`Error::Revoked`] (HO4).
pub struct TagLease {
    memory: Arc<dyn Memory>,
    tag: Mutex<Arc<Tag>>,
    /// Held by a thread that changes the tag.
    changing: Mutex<()>,
    uuid: [u8; 16],
    session: u64,
    ground: LeaseGround,
    /// The clock of its counters, in nanoseconds.
    now_ns: fn() -> u64,
    /// The entry in the owner's list, if this process owns the pool.
    _listed: Option<ListedTag>,
    /// Keeps this process the pool's owner while it stores.
    lock: Option<Lock>,
}

/// The right by which the process stores.
enum LeaseGround {
    /// This process owns the pool.
    Own { pool: Arc<Pool>, counters: Arc<OwnCounters> },
    /// The pool's owner has given a grant.
    Lent { lease: Box<dyn Lease>, watch: LeaseWatch, poison: Poison, outlives_owner: bool },
}

/// The right to a tag that the pool's owner lent to this process. Dropping it returns the tag.
pub trait Lease: Send + Sync {
    /// Asks the owner to widen `parts` of `tag`: all of them, or none (HO6). Returns the tag as it is then.
    ///
    /// # Errors
    /// As [`TagLease::widen`].
    fn widen(&self, tag: &Tag, parts: &[RoleSpace]) -> Result<LentTag>;

    /// Asks the owner to free the pages of `tag` behind `part`. Returns the tag as it is then.
    ///
    /// # Errors
    /// As [`TagLease::narrow`].
    fn narrow(&self, tag: &Tag, part: RoleSpace) -> Result<LentTag>;
}

/// A tag that the owner of the pool lent to this process.
#[derive(Debug)]
pub struct LentTag {
    /// The tag.
    pub tag: Arc<Tag>,
    /// The identity of the pool.
    pub uuid: [u8; 16],
    /// The number of the lease, see [`TagLease::session`].
    pub session: u64,
    /// Shows whether the loan is still valid (HO4).
    pub watch: LeaseWatch,
}

impl fmt::Debug for TagLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagLease").field("tag", &self.tag().name).field("lent", &self.is_lent()).finish_non_exhaustive()
    }
}

impl TagLease {
    fn own(pool: Arc<Pool>, tag: Arc<Tag>, listed: ListedTag) -> Self {
        let superblock = pool.superblock();
        let counters = pool.holdings.counters.lock().own(tag.generation);
        Self {
            memory: pool.memory_handle(),
            tag: Mutex::new(tag),
            changing: Mutex::new(()),
            uuid: superblock.uuid,
            session: pool.holdings.next_session(&superblock),
            ground: LeaseGround::Own { pool, counters },
            now_ns: || 0,
            _listed: Some(listed),
            lock: None,
        }
    }

    /// Returns the lease of a tag that the owner of the pool in `memory` lent to this process.
    pub fn lent(memory: Arc<dyn Memory>, lent: LentTag, lease: Box<dyn Lease>) -> Self {
        let LentTag { tag, uuid, session, watch } = lent;
        let ground = LeaseGround::Lent { lease, watch, poison: Poison::default(), outlives_owner: false };
        let (tag, changing) = (Mutex::new(tag), Mutex::new(()));
        Self { memory, tag, changing, uuid, session, ground, now_ns: || 0, _listed: None, lock: None }
    }

    /// Returns the lease, which the end of the pool's owner does not end (HO7).
    #[must_use]
    pub fn outliving(mut self) -> Self {
        if let LeaseGround::Lent { outlives_owner, .. } = &mut self.ground {
            *outlives_owner = !planted!("pool: a lease ends with its owner");
        }
        self
    }

    /// Keeps `lock`, the lock of the pool's file, for as long as this lives: the caller that opened the pool may close
    /// it before.
    pub fn keeping(self, lock: &Lock) -> Self {
        let mut kept = self;
        kept.lock = Some(lock.clone());
        kept
    }

    /// Returns the lease, whose operations are timed by a clock that returns nanoseconds. Else they take no time.
    #[must_use]
    pub fn timed(mut self, now_ns: fn() -> u64) -> Self {
        self.now_ns = now_ns;
        self
    }

    #[inline]
    fn counters(&self, op: usize) -> Option<&RequestWords> {
        match &self.ground {
            LeaseGround::Own { counters, .. } => counters.of(op),
            LeaseGround::Lent { watch, .. } => watch.counters(op),
        }
    }

    /// Begins operation `op`, below [`LEASE_OPS`], which [`TagLease::end_alone`] counts.
    #[inline]
    pub fn begin(&self, op: usize) -> RequestTiming {
        self.counters(op).map_or_else(RequestTiming::default, |counters| counters.begin(self.now_ns))
    }

    /// Counts operation `op`, which ends now: its bytes, or `None` if it failed. Calls for one operation do not overlap:
    /// the caller has a lock.
    #[inline]
    pub fn end_alone(&self, op: usize, timing: RequestTiming, bytes: Option<u64>) {
        if let Some(counters) = self.counters(op) {
            counters.end_alone(timing, self.now_ns, bytes);
        }
    }

    /// Publishes figures of the service to the owner, if that is another process: see [`TagCounts::figures`].
    pub fn publish(&self, figures: [u64; LEASE_FIGURES]) {
        if let LeaseGround::Lent { watch, .. } = &self.ground {
            watch.publish(figures);
        }
    }

    /// Returns what the owner wishes of this process, see [`TagCounts::set_wish`]; `None` in the owner's process.
    pub fn wish(&self) -> Option<u64> {
        match &self.ground {
            LeaseGround::Lent { watch, .. } => watch.wish(),
            LeaseGround::Own { .. } => None,
        }
    }

    /// Returns the memory of the whole pool. The holder of the lease may store only to the pages of the tag.
    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// Returns the current state of the tag.
    pub fn tag(&self) -> Arc<Tag> {
        Arc::clone(&self.tag.lock())
    }

    /// Returns the UUID of the pool.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the session, which is greater than the session of every earlier lease. It distinguishes data that an
    /// earlier lease left behind from data stored since.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Returns true if another process owns the pool.
    pub fn is_lent(&self) -> bool {
        matches!(self.ground, LeaseGround::Lent { .. })
    }

    /// Returns the tag's stream of `role`.
    pub fn stream(&self, role: Role) -> Stream {
        Stream::new(&self.tag().extents, role)
    }

    /// Refuses if an earlier persist failed (HO5), or the lease is no longer valid (HO4).
    ///
    /// # Errors
    /// [`Error::Poisoned`] and [`Error::Revoked`].
    #[inline]
    pub fn check_poison(&self) -> Result<()> {
        match &self.ground {
            LeaseGround::Own { pool, .. } => pool.check_poison(),
            LeaseGround::Lent { poison, watch, outlives_owner, .. } => {
                watch.check(*outlives_owner).and_then(|()| poison.check())
            }
        }
    }

    /// Records a failed persist.
    pub fn poison(&self, why: &dyn fmt::Display) {
        match &self.ground {
            LeaseGround::Own { pool, .. } => pool.poison(why),
            LeaseGround::Lent { poison, .. } => poison.note(why),
        }
    }

    /// Waits until everything that this thread stored and flushed is durable. A failure poisons the lease.
    ///
    /// # Errors
    /// [`Error::Medium`] if that fails.
    #[inline]
    pub fn drain(&self) -> Result<()> {
        self.memory.drain().map_err(|error| self.poisoned(error.into()))
    }

    /// Flushes `span` and waits until it is durable. A failure poisons the lease.
    ///
    /// # Errors
    /// [`Error::Medium`] if that fails.
    pub fn persist(&self, span: Span) -> Result<()> {
        self.memory.persist(span).map_err(|error| self.poisoned(error.into()))
    }

    /// Waits until everything that was stored by any scheme is durable. A failure poisons the lease.
    ///
    /// # Errors
    /// [`Error::Medium`] if that fails.
    pub fn barrier(&self) -> Result<()> {
        self.memory.barrier().map_err(|error| self.poisoned(error.into()))
    }

    fn poisoned(&self, error: Error) -> Error {
        self.poison(&error);
        error
    }

    /// Freezes `service` with the pool, if this process owns the pool. Stores through a grant continue during a backup
    /// (BK1).
    pub fn register_freezer(&self, service: Weak<dyn Freeze>) {
        if let LeaseGround::Own { pool, .. } = &self.ground {
            pool.register_freezer(service);
        }
    }

    /// Returns a pass for stores before the service is registered: see [`StorePass::of`]. No freeze waits for stores
    /// of a lent tag (BK1).
    pub fn store_pass(&self) -> StorePass {
        match &self.ground {
            LeaseGround::Own { pool, .. } => StorePass::of(pool),
            LeaseGround::Lent { .. } => StorePass::default(),
        }
    }

    /// Widens the tag so that each role has the space that `parts` say (HO6). The change is durable on return.
    ///
    /// # Errors
    /// The kinds [`FailureKind::Full`] and [`FailureKind::Limit`]: the tag is unchanged. [`Error::Owner`] if the owner
    /// of a lent tag failed, and [`Error::OwnerEnded`]: the lease refuses every change from then on. Else as
    /// [`TagLease`] says.
    pub fn widen(&self, parts: &[RoleSpace]) -> Result<()> {
        let _changing = self.changing.lock();
        let changed = match &self.ground {
            LeaseGround::Own { pool, .. } => widen(pool, &self.tag(), parts)?,
            LeaseGround::Lent { lease, watch, outlives_owner, .. } => {
                watch.check(false)?;
                let is_harmless = |error: &Error| {
                    let is_unchanged = matches!(error.kind(), FailureKind::Full | FailureKind::Limit);
                    // The space before stays, under the old grant or a new one of this process (HO7).
                    is_unchanged || *outlives_owner && matches!(error, Error::OwnerEnded)
                };
                // It is not known whether any other failure changed the tag.
                let lent = lease.widen(&self.tag(), parts).inspect_err(|error| {
                    if !is_harmless(error) {
                        self.poison(error);
                    }
                })?;
                watch.turn_to(&lent.watch);
                lent.tag
            }
        };
        *self.tag.lock() = changed;
        Ok(())
    }
}

/// Adds to `tag` of `pool` all the space that it lacks of `parts`, or none.
fn widen(pool: &Pool, tag: &Tag, parts: &[RoleSpace]) -> Result<Arc<Tag>> {
    let has = |role| Stream::new(&tag.extents, role).len();
    let lack = parts.iter().map(|part| RoleSpace { bytes: part.bytes.saturating_sub(has(part.role)), ..*part });
    let add: Vec<SpaceNeed> = lack.flat_map(RoleSpace::needs).collect();
    let (size, attributes) = (tag.size, tag.attributes);
    pool.change_tag(tag, &TagChange { size, attributes, add: &add, keep: &tag.extents }, |added| zero_map(pool, added))
}

/// Zeros the MAP stream of `added`, durably (HO3).
fn zero_map(pool: &Pool, added: &[Extent]) -> Result<()> {
    let map = Stream::new(added, Role::MAP);
    map.runs(Span::new(0, map.len())).for_each(|run| pool.memory().zero(run, Scheme::Nt));
    Ok(pool.memory().drain()?)
}

impl Pool {
    /// Leases the tag called `name`, which no other process or caller can lease then (HO1). The caller must not hold
    /// any service.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Busy`] if another process or caller has a lease (HO1).
    pub fn hold(self: &Arc<Self>, name: &str) -> Result<TagLease> {
        let (listed, tag) = ListedTag::new(self, name, "this process")?;
        Ok(TagLease::own(Arc::clone(self), tag, listed))
    }

    /// Returns the living process, other than this one, that has a lease of `tag`. It stores into the tag also while
    /// the pool is frozen.
    pub fn user_of(&self, tag: &Tag) -> Option<u32> {
        let holder = self.grants().holder(tag.generation).filter(Process::is_alive)?;
        Some(holder.identity().pid)
    }

    /// Removes the tag called `name`, which must not be leased (HO2).
    ///
    /// # Errors
    /// As [`Pool::hold`] and as [`Pool::remove_tag`].
    pub fn remove_unheld(self: &Arc<Self>, name: &str) -> Result<()> {
        let holding = self.hold(name)?;
        self.remove_tag(&holding.tag())
    }
}

/// Refuses if a living process has a grant on `tag`. A grant of an ended process is waited for, because another
/// thread is ending it.
fn ensure_no_grant(pool: &Pool, tag: &Tag) -> Result<()> {
    loop {
        pool.grants().reap(pool)?;
        match pool.grants().holder(tag.generation) {
            Some(holder) if !holder.is_alive() => std::thread::yield_now(),
            Some(holder) => return Err(in_use(&tag.name, &format!("process {}", holder.identity().pid))),
            None => return Ok(()),
        }
    }
}

fn in_use(name: &str, by: &str) -> Error {
    Error::Busy(format!("tag {name:?} is in use by {by}: end that first"))
}

/// An entry in the list of tags that this process leases, or is about to lend. The tag cannot be leased again until
/// this is dropped (HO1).
struct ListedTag {
    pool: Arc<Pool>,
    generation: u64,
}

impl ListedTag {
    /// Lists the tag called `name`. From then on only the owner of the entry changes the tag. `by` describes a holder
    /// of an existing entry.
    fn new(pool: &Arc<Pool>, name: &str, by: &str) -> Result<(Self, Arc<Tag>)> {
        let tag = pool.tag(name)?;
        // The entry is made first, so that a concurrent request for a grant sees it.
        let list = || pool.holdings.tags.lock().insert(tag.generation);
        // The entry of a dropped lease may stay for the time of a service call (F7).
        if !list() && !pool.freezers().while_no_service_is_called(list) {
            return Err(in_use(name, by));
        }
        let listed = Self { pool: Arc::clone(pool), generation: tag.generation };
        ensure_no_grant(pool, &tag)?;
        // Before the entry was made, another holder could widen or remove the tag (HO2).
        let tag = pool.tag_now(&tag)?;
        Ok((listed, tag))
    }
}

impl Drop for ListedTag {
    fn drop(&mut self) {
        self.pool.holdings.tags.lock().remove(&self.generation);
    }
}
