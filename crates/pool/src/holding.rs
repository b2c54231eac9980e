//! A tag in hand: one that this process stores into by itself.
//!
//! ```text
//!   owner's process          another process (tenant)
//!   Pool ---- Holding        Tenant ---- Holding          both: memory, streams, poison
//!              |                |  grant over the control socket, descriptor to map
//!              +--- tag's pages-+
//! ```
//!
//! What stores into a tag stands on a [`Holding`] alone, and so runs in the owner and beside it.
//!
//! - HO1. A tag has one holding at a time, in whichever process: the owner keeps a list of its own, and grants that stand
//!   on a tag, also those that a killed owner gave, count too.
//! - HO2. A held tag is not removed, and its parts change by its holder alone.
//! - HO3. A tag is made with its MAP stream zero and, where it is to hold a log, with an empty log, before it is named: a
//!   crash of whoever asked for it leaves a tag that can be held.
//! - HO4. A lent holding is refused every change once its owner has ended, or has asked for it back. Its grant stays on the
//!   medium until it is dropped and an owner knows: nobody else holds the tag, and its pages are given to nobody, while a
//!   change that had begun may still be stored.
//! - HO5. After a failed persist a holding refuses until it is made anew; the owner's own until the pool is opened anew.
//! - HO6. A widening gives every part what was asked for, or none anything, also where a crash comes; what was there stays,
//!   with its content.

pub(crate) mod board;
mod loan;
mod spec;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Weak};

use ferrite_memory::{Memory, Span};
use parking_lot::Mutex;

use crate::extent::{Role, Stream};
use crate::freeze::Freeze;
use crate::grant::Process;
use crate::lock::Lock;
use crate::page_allocator::SpaceNeed;
use crate::poison::Poison;
use crate::tag::Tag;
use crate::{Error, FailureKind, Pool, Result, TagChange};

pub use board::Watch;
pub use loan::{Lent, Loan, Note, ensure_lendable};
pub use spec::{Part, Spec};

/// A tag that this process stores into; nobody else does (HO1). Given back when dropped.
///
/// Whatever changes it or makes it durable gives [`Error::Medium`] where a persist fails, and is refused from then on
/// ([`Error::Poisoned`], HO5); what is lent is refused with [`Error::Revoked`] when it is not good any more (HO4).
pub struct Holding {
    memory: Arc<dyn Memory>,
    tag: Mutex<Arc<Tag>>,
    uuid: [u8; 16],
    session: u64,
    ground: Ground,
    /// Where the pool is ours: nobody else takes the tag.
    _listed: Option<Listed>,
    /// Kept, so that nobody else becomes the pool's owner while this one stores.
    lock: Option<Lock>,
}

/// By what right.
enum Ground {
    /// The pool is ours.
    Own(Arc<Pool>),
    /// By a grant of its owner.
    Lent { lease: Box<dyn Lease>, watch: Watch, poison: Poison },
}

/// The right to a tag that the pool's owner lent to this process. Dropped, the tag is given back.
pub trait Lease: Send + Sync {
    /// Has the owner widen `parts` of `tag`: all of them, or none (HO6). The tag as it is then takes the place of the
    /// one there was.
    ///
    /// # Errors
    /// As [`Holding::widen`].
    fn widen(&self, tag: &Tag, parts: &[Part]) -> Result<LentTag>;
}

/// A lent tag, as its holder knows it.
#[derive(Debug)]
pub struct LentTag {
    /// The tag.
    pub tag: Arc<Tag>,
    /// The pool's identity.
    pub uuid: [u8; 16],
    /// See [`Holding::session`].
    pub session: u64,
    /// Tells whether the loan is still good (HO4).
    pub watch: Watch,
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("tag", &self.tag().name).field("lent", &self.is_lent()).finish_non_exhaustive()
    }
}

impl Holding {
    fn own(pool: Arc<Pool>, tag: Arc<Tag>, listed: Listed) -> Self {
        let superblock = pool.superblock();
        Self {
            memory: pool.memory_handle(),
            tag: Mutex::new(tag),
            uuid: superblock.uuid,
            session: pool.holdings.next_session(&superblock),
            ground: Ground::Own(pool),
            _listed: Some(listed),
            lock: None,
        }
    }

    /// A tag that the owner of the pool in `memory` lent to this process by `lease`.
    pub fn lent(memory: Arc<dyn Memory>, lent: LentTag, lease: Box<dyn Lease>) -> Self {
        let LentTag { tag, uuid, session, watch } = lent;
        let ground = Ground::Lent { lease, watch, poison: Poison::default() };
        Self { memory, tag: Mutex::new(tag), uuid, session, ground, _listed: None, lock: None }
    }

    /// Keeps `lock`, that of the pool's file, for as long as this lives: whoever opened the pool may go before.
    pub fn keeping(self, lock: &Lock) -> Self {
        let mut kept = self;
        kept.lock = Some(lock.clone());
        kept
    }

    /// The memory of the whole pool; what is the holder's are the pages of the tag.
    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// The tag as it stands.
    pub fn tag(&self) -> Arc<Tag> {
        Arc::clone(&self.tag.lock())
    }

    /// Who the pool is.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Greater than that of every holding before, so that what one of them left behind is told from what is stored since.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Whether another process owns the pool.
    pub fn is_lent(&self) -> bool {
        matches!(self.ground, Ground::Lent { .. })
    }

    /// The tag's stream of `role`.
    pub fn stream(&self, role: Role) -> Stream {
        Stream::new(&self.tag().extents, role)
    }

    /// Refuses when an earlier persist failed (HO5), or the tag is no longer lent (HO4).
    ///
    /// # Errors
    /// [`Error::Poisoned`] and [`Error::Revoked`].
    #[inline]
    pub fn check_poison(&self) -> Result<()> {
        match &self.ground {
            Ground::Own(pool) => pool.check_poison(),
            Ground::Lent { poison, watch, .. } => watch.check().and_then(|()| poison.check()),
        }
    }

    /// Notes that a persist failed.
    pub fn poison(&self, why: &dyn fmt::Display) {
        match &self.ground {
            Ground::Own(pool) => pool.poison(why),
            Ground::Lent { poison, .. } => poison.note(why),
        }
    }

    /// Waits until what this thread stored and flushed is durable. A failure poisons.
    ///
    /// # Errors
    /// [`Error::Medium`].
    #[inline]
    pub fn settle(&self) -> Result<()> {
        self.memory.settle().map_err(|error| self.poisoned(error.into()))
    }

    /// Flushes `span` and waits until it is durable. A failure poisons.
    ///
    /// # Errors
    /// [`Error::Medium`].
    pub fn persist(&self, span: Span) -> Result<()> {
        self.memory.persist(span).map_err(|error| self.poisoned(error.into()))
    }

    /// Waits until all that was stored by any scheme is durable. A failure poisons.
    ///
    /// # Errors
    /// [`Error::Medium`].
    pub fn barrier(&self) -> Result<()> {
        self.memory.barrier().map_err(|error| self.poisoned(error.into()))
    }

    fn poisoned(&self, error: Error) -> Error {
        self.poison(&error);
        error
    }

    /// Lets `service` stand still with the pool, where that is ours. A tenant's stores go on during a backup (BK1).
    pub fn register_freezer(&self, service: Weak<dyn Freeze>) {
        if let Ground::Own(pool) = &self.ground {
            pool.register_freezer(service);
        }
    }

    /// Sees to it that the tag has as much of each role as `parts` say (HO6). Durable on return, or as before.
    ///
    /// # Errors
    /// The kinds [`FailureKind::Full`] and [`FailureKind::Limit`]: it is as before. [`Error::Owner`] where
    /// the owner of what is lent could not do it, and [`Error::OwnerEnded`]: it is refused from then on. Else as
    /// [`Holding`] says.
    pub fn widen(&self, parts: &[Part]) -> Result<()> {
        let changed = match &self.ground {
            Ground::Own(pool) => widen(pool, &self.tag(), parts)?,
            Ground::Lent { lease, watch, .. } => {
                watch.check()?;
                // Whether anything else took effect is not known.
                let lent = lease.widen(&self.tag(), parts).inspect_err(|error| {
                    if !matches!(error.kind(), FailureKind::Full | FailureKind::Limit) {
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

/// Gives `tag` of `pool` what it lacks of `parts`: all of that, or nothing.
fn widen(pool: &Pool, tag: &Tag, parts: &[Part]) -> Result<Arc<Tag>> {
    let has = |role| Stream::new(&tag.extents, role).len();
    let lack = parts.iter().map(|part| Part { bytes: part.bytes.saturating_sub(has(part.role)), ..*part });
    let add: Vec<SpaceNeed> = lack.flat_map(Part::needs).collect();
    let (size, attributes) = (tag.size, tag.attributes);
    pool.change_tag(tag, &TagChange { size, attributes, add: &add, keep: &tag.extents }, |_| Ok(()))
}

impl Pool {
    /// Takes the tag called `name` in hand, which nobody else has then (HO1). The caller has nothing of any service in
    /// hand.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Busy`] where somebody has it (HO1).
    pub fn hold(self: &Arc<Self>, name: &str) -> Result<Holding> {
        let (listed, tag) = Listed::new(self, name, "this process")?;
        Ok(Holding::own(Arc::clone(self), tag, listed))
    }

    /// The living process, other than this one's own holdings, that has `tag` in hand, if there is one: it stores into it
    /// also while the pool stands still.
    pub fn user_of(&self, tag: &Tag) -> Option<u32> {
        let holder = self.grants().holder(tag.generation).filter(Process::is_alive)?;
        Some(holder.identity().pid)
    }

    /// Refuses where a living grant stands on `tag`. One of a process that has ended is waited for: another thread is
    /// taking it back.
    fn ensure_no_grant(&self, tag: &Tag) -> Result<()> {
        loop {
            self.grants().reap(self)?;
            match self.grants().holder(tag.generation) {
                Some(holder) if !holder.is_alive() => std::thread::yield_now(),
                Some(holder) => return Err(in_use(&tag.name, &format!("process {}", holder.identity().pid))),
                None => return Ok(()),
            }
        }
    }

    /// Removes the tag called `name`, which nobody may have in hand (HO2).
    ///
    /// # Errors
    /// As [`Pool::hold`] and as [`Pool::remove_tag`].
    pub fn remove_unheld(self: &Arc<Self>, name: &str) -> Result<()> {
        let holding = self.hold(name)?;
        self.remove_tag(&holding.tag())
    }
}

fn in_use(name: &str, by: &str) -> Error {
    Error::Busy(format!("tag {name:?} is in use by {by}: end that first"))
}

/// A tag on the list of those that this process holds, or is about to lend, until dropped: nobody else takes it (HO1).
struct Listed {
    pool: Arc<Pool>,
    generation: u64,
}

impl Listed {
    /// Lists the tag called `name`, which from then on changes by whoever has this alone; `by` is who has it already.
    fn new(pool: &Arc<Pool>, name: &str, by: &str) -> Result<(Self, Arc<Tag>)> {
        let tag = pool.tag(name)?;
        // Listed first: a grant that is asked for meanwhile sees it.
        let list = || pool.holdings.tags.lock().insert(tag.generation);
        // What its holder has dropped may be on the list for a moment yet (F7).
        if !list() && !pool.freezers().while_no_service_is_called(list) {
            return Err(in_use(name, by));
        }
        let listed = Self { pool: Arc::clone(pool), generation: tag.generation };
        pool.ensure_no_grant(&tag)?;
        // Until now somebody else could have it, widen it, and remove it (HO2).
        let tag = pool.tag_now(&tag)?;
        Ok((listed, tag))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.pool.holdings.tags.lock().remove(&self.generation);
    }
}
