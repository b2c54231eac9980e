//! The locks of inodes. An inode's lock is one of a fixed number, by its number: nothing is looked up or counted.
//!
//! Several are taken at once in the order of the table, each once; so no two threads wait for each other.

use std::collections::BTreeMap;

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

/// All locks.
#[derive(Debug)]
pub(crate) struct Locks(Box<[Padded<RwLock<Stripe>>]>);

/// Several inodes, locked to be changed.
pub(crate) struct Locked<'a>(Vec<(u64, RwLockWriteGuard<'a, Stripe>)>);

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
    fn of(&self, ino: Ino) -> &RwLock<Stripe> {
        &self.0[stripe(ino) as usize].0
    }

    pub fn read(&self, ino: Ino) -> RwLockReadGuard<'_, Stripe> {
        self.of(ino).read()
    }

    pub fn write(&self, ino: Ino) -> RwLockWriteGuard<'_, Stripe> {
        self.of(ino).write()
    }

    /// Keeps others from changing it; readers go on until it is upgraded.
    pub fn upgradable(&self, ino: Ino) -> RwLockUpgradableReadGuard<'_, Stripe> {
        self.of(ino).upgradable_read()
    }

    /// All of `inos`, to be changed.
    pub fn write_all(&self, inos: &[Ino]) -> Locked<'_> {
        let mut indexes: Vec<u64> = inos.iter().map(|ino| stripe(*ino)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        Locked(indexes.into_iter().map(|index| (index, self.0[index as usize].0.write())).collect())
    }

    /// `more` to what is `locked`, if that needs no waiting.
    pub fn try_add<'a>(&'a self, locked: &mut Locked<'a>, more: Ino) -> bool {
        let index = stripe(more);
        if locked.0.iter().any(|(other, _)| *other == index) {
            return true;
        }
        let added = self.of(more).try_write();
        added.map(|guard| locked.0.push((index, guard))).is_some()
    }

    /// Every inode's hold and waiting size, one lock after the other.
    pub fn each(&self, mut visit: impl FnMut(&mut Stripe)) {
        self.0.iter().for_each(|stripe| visit(&mut stripe.0.write()));
    }
}
