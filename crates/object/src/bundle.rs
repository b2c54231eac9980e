//! A bundle: maps and queues that change together. One log keeps them all, so a change of several is one record.
//!
//! ```text
//! change     parts one behind the other:
//!            kind u8  name_len u32  change_len u32  name  change of that member
//! item       kind u8  name_len u32  name  item of that member
//! kind       1 map   2 queue
//! ```
//!
//! - BU1. A change of a bundle is durable when it returns, and after a crash in all its members or in none (LG2).
//! - BU2. A member that holds nothing is not kept: it is there as soon as something is put into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change_steps::{ChangeSteps, len_of};
use crate::logged::{Logged, LoggedStructure, SalvageLoss};
use crate::object_map::{MapBatch, MapEntries};
use crate::object_queue::{QueueBatch, QueueEntries};
use crate::{Error, Result};

const MAP: u8 = 1;
const QUEUE: u8 = 2;

static NO_ENTRIES: MapEntries = MapEntries::NONE;
static NOTHING: QueueEntries = QueueEntries::NOTHING;

/// A structure that can be a member, and how long its items are with `head_bytes` before each.
pub(crate) trait BundleMember: LoggedStructure {
    /// Whether it holds nothing.
    fn is_empty(&self) -> bool;

    /// See [`LoggedStructure::growth`].
    fn growth_below(change: &[u8], head_bytes: usize) -> u64;

    /// See [`LoggedStructure::content_after`]: exactly that.
    fn bytes_after(&self, change: &[u8], head_bytes: usize) -> u64;
}

/// Bytes before an item of the member called `name`.
fn head_bytes(name: &str) -> usize {
    5 + name.len()
}

/// What the members of a bundle hold, in DRAM.
#[derive(Debug, Default)]
pub struct BundleMembers {
    maps: BTreeMap<String, MapEntries>,
    queues: BTreeMap<String, QueueEntries>,
    /// Of all items.
    bytes: u64,
}

impl BundleMembers {
    /// What the map called `name` holds.
    pub fn map(&self, name: &str) -> &MapEntries {
        self.maps.get(name).unwrap_or(&NO_ENTRIES)
    }

    /// What the queue called `name` holds.
    pub fn queue(&self, name: &str) -> &QueueEntries {
        self.queues.get(name).unwrap_or(&NOTHING)
    }

    /// The names of maps that hold something, in order.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.maps.keys().map(String::as_str)
    }

    /// The names of queues that hold something, in order.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    /// Whether there can be a member of this kind and name, and it knew these bytes.
    fn take_in(&mut self, (kind, name): (u8, &[u8]), bytes: MemberBytes<'_>) -> bool {
        let Ok(name) = str::from_utf8(name) else { return false };
        match kind {
            MAP => take_in(&mut self.maps, &mut self.bytes, name, bytes),
            QUEUE => take_in(&mut self.queues, &mut self.bytes, name, bytes),
            _ => false,
        }
    }
}

/// What a member is given.
enum MemberBytes<'a> {
    Change(&'a [u8]),
    Item(&'a [u8]),
}

/// Gives `bytes` to the member called `name`, which is kept if it holds something afterwards (BU2). `all_bytes` are those
/// of all items.
fn take_in<S: BundleMember>(
    members: &mut BTreeMap<String, S>,
    all_bytes: &mut u64,
    name: &str,
    bytes: MemberBytes<'_>,
) -> bool {
    if !members.contains_key(name) {
        members.insert(name.into(), S::default());
    }
    let Some(member) = members.get_mut(name) else { return false };
    let item_bytes = |member: &S| member.bytes_after(&[], head_bytes(name));
    let before = item_bytes(member);
    let is_known = match bytes {
        MemberBytes::Change(change) => member.apply(change),
        MemberBytes::Item(item) => member.restore(item),
    };
    *all_bytes = *all_bytes - before + item_bytes(member);
    if member.is_empty() {
        members.remove(name);
    }
    is_known
}

fn save_all<S: LoggedStructure>(kind: u8, members: &BTreeMap<String, S>, item: &mut dyn FnMut(&[&[u8]])) {
    for (name, member) in members {
        let (kind, name_len) = ([kind], len_of(name.as_bytes()));
        member.save(&mut |parts| {
            let mut all = vec![&kind[..], &name_len, name.as_bytes()];
            all.extend_from_slice(parts);
            item(&all);
        });
    }
}

impl LoggedStructure for BundleMembers {
    const TYPE: &'static str = "bundle";

    fn apply(&mut self, change: &[u8]) -> bool {
        let mut steps = ChangeSteps(change);
        while let Some(kind) = steps.byte() {
            let part = steps.put();
            if !part.is_some_and(|(name, part)| self.take_in((kind, name), MemberBytes::Change(part))) {
                return false;
            }
        }
        true
    }

    fn growth(change: &[u8]) -> u64 {
        let (mut steps, mut bytes) = (ChangeSteps(change), 0);
        while let Some((kind, (name, part))) = steps.byte().zip(steps.put()) {
            let growth = if kind == MAP { MapEntries::growth_below } else { QueueEntries::growth_below };
            bytes += growth(part, 5 + name.len());
        }
        bytes
    }

    fn content_after(&self, change: &[u8]) -> u64 {
        let (mut steps, mut bytes) = (ChangeSteps(change), self.bytes);
        while let Some((kind, (name, part))) = steps.byte().zip(steps.put()) {
            let name = str::from_utf8(name).unwrap_or_default();
            let (map, queue) = (self.map(name), self.queue(name));
            let after = |change| match kind {
                MAP => map.bytes_after(change, head_bytes(name)),
                _ => queue.bytes_after(change, head_bytes(name)),
            };
            bytes = (bytes + after(part)).saturating_sub(after(&[]));
        }
        bytes
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        save_all(MAP, &self.maps, item);
        save_all(QUEUE, &self.queues, item);
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        let mut steps = ChangeSteps(item);
        let head = steps.byte().zip(steps.sized());
        head.is_some_and(|head| self.take_in(head, MemberBytes::Item(steps.0)))
    }
}

/// Changes of a bundle's members that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleChange {
    maps: BTreeMap<String, MapBatch>,
    queues: BTreeMap<String, QueueBatch>,
}

impl BundleChange {
    /// Changes of the map called `name`.
    pub fn map(&mut self, name: &str) -> &mut MapBatch {
        self.maps.entry(name.into()).or_default()
    }

    /// Changes of the queue called `name`.
    pub fn queue(&mut self, name: &str) -> &mut QueueBatch {
        self.queues.entry(name.into()).or_default()
    }

    /// Refuses to pop from a queue that would be empty then.
    fn ensure_fits(&self, members: &BundleMembers) -> Result<()> {
        match self.queues.iter().find(|(name, batch)| !batch.fits(members.queue(name).len())) {
            Some((name, _)) => {
                Err(Error::Refused(format!("queue {name:?} has nothing left to pop: nothing was changed")))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.parts().concat()
    }

    fn parts(&self) -> Vec<Vec<u8>> {
        let maps = self.maps.iter().map(|(name, batch)| (MAP, name, batch.bytes()));
        let queues = self.queues.iter().map(|(name, batch)| (QUEUE, name, batch.bytes()));
        let parts = maps.chain(queues).filter(|(.., change)| !change.is_empty());
        let bytes = |(kind, name, change): (u8, &String, &[u8])| {
            [&[kind][..], &len_of(name.as_bytes()), &len_of(change), name.as_bytes(), change].concat()
        };
        parts.map(bytes).collect()
    }
}

/// Durable maps and queues that change together. Readers wait for no fence.
#[derive(Clone, Debug)]
pub struct Bundle(Arc<Logged<BundleMembers>>);

impl Bundle {
    pub(crate) fn new(logged: Arc<Logged<BundleMembers>>) -> Self {
        Self(logged)
    }

    /// What a salvage had to give up; empty where nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        self.0.losses()
    }

    /// Looks at its members, as of one moment.
    pub fn read<T>(&self, look: impl FnOnce(&BundleMembers) -> T) -> T {
        self.0.read(look)
    }

    /// Makes `change` in all members at once (BU1).
    ///
    /// # Errors
    /// [`Error::Refused`] where it pops from a queue that has nothing left: nothing is changed. Else as
    /// [`Logged::make`].
    pub fn commit(&self, change: &BundleChange) -> Result<()> {
        self.0.change(|members| {
            let fits = change.ensure_fits(members);
            (fits.is_ok().then(|| change.bytes()), fits)
        })?
    }

    /// Makes what `plan` changes, seeing the members as they are; nothing changes in between. Where it fails nothing does.
    /// The plan does nothing else with the store: a backup waits for it, and whatever waits for the backup would hang.
    ///
    /// # Errors
    /// What `plan` gives; else as [`Bundle::commit`].
    pub fn change<T>(&self, plan: impl FnOnce(&BundleMembers, &mut BundleChange) -> Result<T>) -> Result<T> {
        self.0.change(|members| {
            let mut change = BundleChange::default();
            let told = plan(members, &mut change).and_then(|told| change.ensure_fits(members).map(|()| told));
            (told.is_ok().then(|| change.bytes()), told)
        })?
    }

    /// Takes a checkpoint now.
    ///
    /// # Errors
    /// As [`Logged::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
}

#[cfg(test)]
mod tests;
