//! The locks of inodes. An inode's lock is one of a fixed number, by its number: nothing is looked up or counted.
//!
//! Several are taken at once in the order of the table, each once; so no two threads wait for each other.
//!
//! Reads, and writes over existing bytes, mostly acquire no lock: they pin, look the place up, and check by the lock's
//! version that no thread changed it.
//!
//! - FL1. While a lock is held to change something its version is odd; afterwards it is another one than before.
//! - FL2. A place that was looked up under a pin, with the same even version before and after, is not reused until the
//!   pin ends: freed space waits for all earlier pins (`deferred_frees`).
//! - FL3. A thread that copies content to another place first makes writers wait for the lock, and then waits for all
//!   earlier pins: no byte is written behind the copy's back.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{order_loads, wait_for_pins};
use parking_lot::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use crate::Ino;
use crate::format::inode::{Inode, InodeHead};
use crate::share::layout::shared_state::{STRIPES, SharedState, stripe};
use crate::store::clients::{Appender, Clients, RevokedAppend};
use crate::view::version::LockVersion;
use ferrite_memory::shard::Padded;

/// State in DRAM of an inode that is held.
#[derive(Debug, Default)]
pub(crate) struct InodeHold {
    /// The number of holds.
    pub count: u64,
    /// How often clients have stopped appending to it or a kernel has begun to, and up to which count a kernel has
    /// seen the end (FG8) and finished (FG11).
    pub ends: u32,
    pub known_ends: u32,
}

/// State in DRAM of the inodes of one lock.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub holds: BTreeMap<u64, InodeHold>,
    /// If a fence is not durable: sizes and times that wait for an fsync.
    pub waiting: BTreeMap<u64, WaitingSize>,
    /// Clients that append to files by themselves (FG7).
    pub appenders: Vec<Appender>,
    /// Files that one of them was stopped in the middle of an append to; `true`: what it may still do counts no more.
    pub stopped_appends: BTreeMap<u64, bool>,
    pub serial: u64,
}

/// A size and times that are not on the medium yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingSize {
    pub size: u64,
    mtime: i64,
    ctime: i64,
    atime: i64,
    /// Differs between any two values that wait for the same file.
    pub serial: u64,
}

impl Stripe {
    /// Keeps the size and the times of `inode` until an fsync.
    pub fn wait(&mut self, inode: &Inode) {
        self.serial += 1;
        let number = inode.ino.0;
        let serial = self.waiting.get(&number).map_or(self.serial, |waiting| waiting.serial);
        let InodeHead { size, mtime, ctime, atime, .. } = inode.head;
        self.waiting.insert(number, WaitingSize { size, mtime, ctime, atime, serial });
    }

    /// Like [`Stripe::wait`], if they wait already and a transaction has written the head in between.
    pub fn wait_on(&mut self, inode: &Inode) {
        if self.waiting.contains_key(&inode.ino.0) {
            self.wait(inode);
        }
    }

    /// Sets the size and times of `inode` to those that wait for an fsync.
    pub fn apply_waiting(&self, inode: &mut Inode) {
        if let Some(waiting) = self.waiting.get(&inode.ino.0) {
            inode.hold_size(inode.size());
            inode.head.size = waiting.size;
            waiting.apply_times(inode);
        }
    }

    /// Returns true if a client appends to `ino` by itself.
    pub fn has_appender(&self, ino: Ino) -> bool {
        self.appenders.iter().any(|appender| appender.ino == ino)
    }

    pub fn is_held(&self, ino: Ino) -> bool {
        self.holds.contains_key(&ino.0)
    }
}

impl WaitingSize {
    /// Sets the times of `inode`. The inode may have lost a name since, which the medium shows.
    pub fn apply_times(&self, inode: &mut Inode) {
        let ctime = inode.head.ctime.max(self.ctime);
        (inode.head.mtime, inode.head.ctime, inode.head.atime) = (self.mtime, ctime, self.atime);
    }
}

/// All locks. Their versions are in the shared state, for clients that take no locks at all.
pub(crate) struct Locks {
    shared_state: Arc<SharedState>,
    clients: Arc<dyn Clients>,
    /// Whether a client may have stopped within an append.
    is_append_stopped: AtomicBool,
    slots: Box<[Padded<RwLock<Stripe>>]>,
}

/// An inode, locked to be changed.
pub(crate) struct LockedStripe<'a> {
    locks: &'a Locks,
    index: u64,
    stripe: RwLockWriteGuard<'a, Stripe>,
}

impl<'a> LockedStripe<'a> {
    fn new(locks: &'a Locks, index: u64, mut stripe: RwLockWriteGuard<'a, Stripe>) -> Self {
        let (shared_state, mut revoked) = (&*locks.shared_state, Vec::new());
        if !stripe.appenders.is_empty() {
            revoked = locks.clients.suspend_appends(&mut stripe.appenders);
        }
        // Acquire: nothing that is stored under the lock is seen before the version is odd.
        shared_state.version(index).fetch_add(1, Ordering::AcqRel);
        revoked.into_iter().for_each(|revoked| locks.note_revoked_append(&mut stripe, revoked));
        Self { locks, index, stripe }
    }
}

impl LockedStripe<'_> {
    /// Returns true if no thread held the lock to change something since `version`.
    pub fn follows(&self, version: LockVersion) -> bool {
        self.locks.shared_state.version(self.index).load(Ordering::Relaxed) == version.locked()
    }

    /// The version that it will have afterwards.
    pub fn version_after(&self) -> LockVersion {
        LockVersion::after(self.locks.shared_state.version(self.index).load(Ordering::Relaxed))
    }
}

impl Drop for LockedStripe<'_> {
    fn drop(&mut self) {
        let version = self.locks.shared_state.version(self.index);
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Release);
        if !self.stripe.appenders.is_empty() {
            self.locks.clients.resume_appends(&self.stripe.appenders);
        }
    }
}

impl Deref for LockedStripe<'_> {
    type Target = Stripe;

    fn deref(&self) -> &Stripe {
        &self.stripe
    }
}

impl DerefMut for LockedStripe<'_> {
    fn deref_mut(&mut self) -> &mut Stripe {
        &mut self.stripe
    }
}

/// An inode whose content is being copied: readers go on, writers wait (FL3).
pub(crate) struct CopiedStripe<'a> {
    locks: &'a Locks,
    index: u64,
    stripe: Option<RwLockUpgradableReadGuard<'a, Stripe>>,
}

impl<'a> CopiedStripe<'a> {
    pub fn stripe(&self) -> &Stripe {
        self.stripe.as_ref().expect("there until it is upgraded")
    }

    /// Waits for readers too, to change what they see.
    pub fn upgrade(mut self) -> LockedStripe<'a> {
        let stripe = self.stripe.take().expect("there until it is upgraded");
        LockedStripe::new(self.locks, self.index, RwLockUpgradableReadGuard::upgrade(stripe))
    }
}

impl Drop for CopiedStripe<'_> {
    fn drop(&mut self) {
        // Upgraded, the odd version has taken its place.
        self.locks.shared_state.writes_wait(self.index).store(0, Ordering::SeqCst);
    }
}

/// Several inodes, locked to be changed.
pub(crate) struct LockedStripes<'a>(Vec<(u64, LockedStripe<'a>)>);

impl LockedStripes<'_> {
    /// Returns the state of `ino`, which must be locked.
    pub fn stripe(&mut self, ino: Ino) -> &mut Stripe {
        let of = stripe(ino);
        let found = self.0.iter_mut().find(|(index, _)| *index == of);
        &mut found.expect("only locked inodes are asked for").1
    }
}

impl Locks {
    /// Locks whose versions are on `shared_state`.
    pub fn new(shared_state: &Arc<SharedState>, clients: &Arc<dyn Clients>) -> Self {
        let (shared_state, clients) = (Arc::clone(shared_state), Arc::clone(clients));
        Self {
            shared_state,
            clients,
            is_append_stopped: AtomicBool::new(false),
            slots: (0..STRIPES).map(|_| Padded::default()).collect(),
        }
    }

    fn slot(&self, index: u64) -> &RwLock<Stripe> {
        &self.slots[index as usize].0
    }

    fn lock(&self, index: u64) -> LockedStripe<'_> {
        LockedStripe::new(self, index, self.slot(index).write())
    }

    pub fn read(&self, ino: Ino) -> RwLockReadGuard<'_, Stripe> {
        self.slot(stripe(ino)).read()
    }

    pub fn write(&self, ino: Ino) -> LockedStripe<'_> {
        self.lock(stripe(ino))
    }

    /// Returns the version from which a reader without a lock starts; `None` while a thread changes something. The
    /// caller is pinned.
    #[inline]
    pub fn version(&self, ino: Ino) -> Option<LockVersion> {
        self.shared_state.even_version(ino)
    }

    /// Returns the version from which a writer without a lock starts; `None` while writers wait.
    #[inline]
    pub fn version_to_write(&self, ino: Ino) -> Option<LockVersion> {
        self.shared_state.version_to_write(ino)
    }

    /// Returns true if nothing changed since `version`.
    #[inline]
    pub fn is_still(&self, ino: Ino, version: LockVersion) -> bool {
        order_loads();
        self.shared_state.is_still(ino, version)
    }

    /// Keeps others from changing its content; readers go on. The caller is not pinned.
    pub fn copying(&self, ino: Ino) -> CopiedStripe<'_> {
        let index = stripe(ino);
        let stripe = Some(self.slot(index).upgradable_read());
        self.shared_state.writes_wait(index).store(1, Ordering::SeqCst);
        wait_for_pins();
        self.clients.pass();
        CopiedStripe { locks: self, index, stripe }
    }

    /// All of `inos`, to be changed.
    pub fn write_all(&self, inos: &[Ino]) -> LockedStripes<'_> {
        let mut locked = Vec::with_capacity(4);
        if let [ino] = inos {
            locked.push((stripe(*ino), self.write(*ino)));
            return LockedStripes(locked);
        }
        let mut indexes: Vec<u64> = inos.iter().map(|ino| stripe(*ino)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        locked.extend(indexes.into_iter().map(|index| (index, self.lock(index))));
        LockedStripes(locked)
    }

    /// `more` to what is `locked`, if that needs no waiting.
    pub fn try_add<'a>(&'a self, locked: &mut LockedStripes<'a>, more: Ino) -> bool {
        let index = stripe(more);
        if locked.0.iter().any(|(other, _)| *other == index) {
            return true;
        }
        let added = self.slot(index).try_write();
        added.map(|stripe| locked.0.push((index, LockedStripe::new(self, index, stripe)))).is_some()
    }

    /// A client was stopped at the end of a file: before another thread gets there, its append must become void.
    #[cold]
    fn note_revoked_append(&self, stripe: &mut Stripe, revoked: RevokedAppend) {
        stripe.stopped_appends.insert(revoked.ino.0, false);
        self.note_stopped_append();
        self.clients.invalidate_revoked_append(stripe, revoked);
    }

    /// Returns true if a client may have stopped within an append.
    pub fn is_append_stopped(&self) -> bool {
        self.is_append_stopped.load(Ordering::Acquire)
    }

    pub fn note_stopped_append(&self) {
        self.is_append_stopped.store(true, Ordering::SeqCst);
    }

    /// Forgets stopped appends, unless a stopped client is left that could continue. A client that stops at the end of
    /// a file is noted before that file's lock is released.
    pub fn forget_stopped_appends(&self, may_come_back: impl Fn() -> bool) {
        self.is_append_stopped.store(false, Ordering::SeqCst);
        self.each(|stripe| {
            if !stripe.stopped_appends.is_empty() && may_come_back() {
                self.note_stopped_append();
            } else {
                stripe.stopped_appends.clear();
            }
        });
    }

    /// Every inode's hold and waiting size, one lock after the other.
    pub fn each(&self, mut session_info: impl FnMut(&mut Stripe)) {
        (0..STRIPES).for_each(|index| session_info(&mut self.lock(index)));
    }
}
