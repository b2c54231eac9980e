//! The locks of inodes. An inode's lock is one of a fixed number, by its number: nothing is looked up or counted.
//!
//! Several are taken at once in the order of the table, each once; so no two threads wait for each other.
//!
//! Reads, and writes over what is there, mostly take none: they pin, look the place up, and see by the lock's version that
//! nobody changed it meanwhile.
//!
//! - FL1. While a lock is held to change something its version is odd; afterwards it is another one than before.
//! - FL2. A place that was looked up under a pin, with the same even version before and after, is used for nothing else
//!   until the pin is gone: what is freed waits for the pins of before (`limbo`).
//! - FL3. Who copies content to another place first lets writes wait for the lock, and then waits for the pins of before:
//!   no byte is written behind the copy's back.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferrite_medium::{order_loads, wait_for_pins};
use parking_lot::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use crate::Ino;
use crate::gate::Padded;

const STRIPES: u64 = 1024;

/// What is kept in DRAM of an inode that somebody holds.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// How often.
    pub count: u64,
    /// It may have pages behind its end that were taken ahead of appends.
    pub is_ahead: bool,
}

/// What is kept in DRAM of the inodes of one lock.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub holds: BTreeMap<u64, Hold>,
    /// Where a fence is not durable: sizes and times that wait for an fsync.
    pub waiting: BTreeMap<u64, Waiting>,
    serial: u64,
}

/// A size and a time that are not on the medium yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub size: u64,
    pub mtime: i64,
    /// Differs from that of what waited before.
    pub serial: u64,
}

impl Stripe {
    /// Lets a size and a time of `ino` wait.
    pub fn wait(&mut self, ino: Ino, size: u64, mtime: i64) {
        self.serial += 1;
        let serial = self.waiting.get(&ino.0).map_or(self.serial, |waiting| waiting.serial);
        self.waiting.insert(ino.0, Waiting { size, mtime, serial });
    }

    pub fn is_held(&self, ino: Ino) -> bool {
        self.holds.contains_key(&ino.0)
    }
}

/// One lock.
#[derive(Debug, Default)]
struct Slot {
    /// Odd while somebody changes something (FL1).
    version: AtomicU64,
    /// Writes take the lock (FL3).
    writes_wait: AtomicBool,
    lock: RwLock<Stripe>,
}

/// All locks.
#[derive(Debug)]
pub(crate) struct Locks(Box<[Padded<Slot>]>);

/// An inode, locked to be changed.
pub(crate) struct Writing<'a> {
    slot: &'a Slot,
    stripe: RwLockWriteGuard<'a, Stripe>,
}

impl<'a> Writing<'a> {
    fn new(slot: &'a Slot, stripe: RwLockWriteGuard<'a, Stripe>) -> Self {
        // Acquire: nothing that is stored under the lock is seen before the version is odd.
        slot.version.fetch_add(1, Ordering::AcqRel);
        Self { slot, stripe }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.slot.version.store(self.slot.version.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Deref for Writing<'_> {
    type Target = Stripe;

    fn deref(&self) -> &Stripe {
        &self.stripe
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Stripe {
        &mut self.stripe
    }
}

/// An inode whose content is being copied: readers go on, writers wait (FL3).
pub(crate) struct Copying<'a> {
    slot: &'a Slot,
    stripe: Option<RwLockUpgradableReadGuard<'a, Stripe>>,
}

impl<'a> Copying<'a> {
    pub fn stripe(&self) -> &Stripe {
        self.stripe.as_ref().expect("there until it is upgraded")
    }

    /// Waits for readers too, to change what they see.
    pub fn upgrade(mut self) -> Writing<'a> {
        let stripe = self.stripe.take().expect("there until it is upgraded");
        Writing::new(self.slot, RwLockUpgradableReadGuard::upgrade(stripe))
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        // Upgraded, the odd version has taken its place.
        self.slot.writes_wait.store(false, Ordering::SeqCst);
    }
}

/// What a lookup without a lock starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

/// Several inodes, locked to be changed.
pub(crate) struct Locked<'a>(Vec<(u64, Writing<'a>)>);

impl Locked<'_> {
    /// What is kept of `ino`, which is one of those locked.
    pub fn stripe(&mut self, ino: Ino) -> &mut Stripe {
        let of = stripe(ino);
        let found = self.0.iter_mut().find(|(index, _)| *index == of);
        &mut found.expect("only locked inodes are asked for").1
    }
}

fn stripe(ino: Ino) -> u64 {
    ino.0 % STRIPES
}

impl Default for Locks {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Padded::default()).collect())
    }
}

impl Locks {
    #[inline]
    fn of(&self, ino: Ino) -> &Slot {
        &self.0[stripe(ino) as usize].0
    }

    fn lock(&self, index: u64) -> Writing<'_> {
        let slot = &self.0[index as usize].0;
        Writing::new(slot, slot.lock.write())
    }

    pub fn read(&self, ino: Ino) -> RwLockReadGuard<'_, Stripe> {
        self.of(ino).lock.read()
    }

    pub fn write(&self, ino: Ino) -> Writing<'_> {
        self.lock(stripe(ino))
    }

    /// What a reader without a lock starts from; none while somebody changes something. The caller is pinned.
    #[inline]
    pub fn version(&self, ino: Ino) -> Option<Version> {
        let version = self.of(ino).version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(Version(version))
    }

    /// The same for a writer.
    #[inline]
    pub fn version_to_write(&self, ino: Ino) -> Option<Version> {
        let version = self.version(ino)?;
        (!self.of(ino).writes_wait.load(Ordering::Acquire)).then_some(version)
    }

    /// Whether nobody changed anything since.
    #[inline]
    pub fn is_still(&self, ino: Ino, version: Version) -> bool {
        order_loads();
        self.of(ino).version.load(Ordering::Relaxed) == version.0
    }

    /// Keeps others from changing its content; readers go on. The caller is not pinned.
    pub fn copying(&self, ino: Ino) -> Copying<'_> {
        let slot = self.of(ino);
        let stripe = Some(slot.lock.upgradable_read());
        slot.writes_wait.store(true, Ordering::SeqCst);
        wait_for_pins();
        Copying { slot, stripe }
    }

    /// All of `inos`, to be changed.
    pub fn write_all(&self, inos: &[Ino]) -> Locked<'_> {
        let mut indexes: Vec<u64> = inos.iter().map(|ino| stripe(*ino)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        Locked(indexes.into_iter().map(|index| (index, self.lock(index))).collect())
    }

    /// `more` to what is `locked`, if that needs no waiting.
    pub fn try_add<'a>(&'a self, locked: &mut Locked<'a>, more: Ino) -> bool {
        let index = stripe(more);
        if locked.0.iter().any(|(other, _)| *other == index) {
            return true;
        }
        let slot = self.of(more);
        let added = slot.lock.try_write();
        added.map(|stripe| locked.0.push((index, Writing::new(slot, stripe)))).is_some()
    }

    /// Every inode's hold and waiting size, one lock after the other.
    pub fn each(&self, mut visit: impl FnMut(&mut Stripe)) {
        (0..STRIPES).for_each(|index| visit(&mut self.lock(index)));
    }
}
