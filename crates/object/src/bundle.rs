//! A bundle: maps and queues that change together. One log holds all of them, so a change of several is one record.
//!
//! ```text
//! change  adjacent parts:
//!   kind u8  name_len u32  change_len u32  name  change of that member
//! item    kind u8  name_len u32  name  item of that member
//! kind    1 map   2 queue
//! ```
//!
//! - BU1. A change of a bundle is durable when its call returns, and after a crash in all its members or in none (LG2).
//! - BU2. An empty member is not stored: a member exists as soon as it has content.

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

/// A structure that can be a member, and the length of its items with `head_bytes` before each.
pub(crate) trait BundleMember: LoggedStructure {
    /// Returns true if the member has no content.
    fn is_empty(&self) -> bool;

    /// Returns [`LoggedStructure::growth`] with `head_bytes` before each item.
    fn growth_below(change: &[u8], head_bytes: usize) -> u64;

    /// Returns [`LoggedStructure::content_after`] with `head_bytes` before each item, exactly.
    fn bytes_after(&self, change: &[u8], head_bytes: usize) -> u64;
}

/// Returns the bytes before an item of the member called `name`.
fn head_bytes(name: &str) -> usize {
    5 + name.len()
}

/// The content of a bundle's members, in DRAM.
#[derive(Debug, Default)]
pub struct BundleMembers {
    maps: BTreeMap<String, MapEntries>,
    queues: BTreeMap<String, QueueEntries>,
    /// Bytes of all items.
    bytes: u64,
}

impl BundleMembers {
    /// Returns the content of the map called `name`.
    pub fn map(&self, name: &str) -> &MapEntries {
        self.maps.get(name).unwrap_or(&NO_ENTRIES)
    }

    /// Returns the content of the queue called `name`.
    pub fn queue(&self, name: &str) -> &QueueEntries {
        self.queues.get(name).unwrap_or(&NOTHING)
    }

    /// Returns the names of the maps with content, in order.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.maps.keys().map(String::as_str)
    }

    /// Returns the names of the queues with content, in order.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    /// Applies `bytes` to the member of this kind and name. Returns false if no such member can exist, or it does not
    /// know the bytes.
    fn apply_to(&mut self, kind: u8, name: &[u8], bytes: MemberBytes<'_>) -> bool {
        let Ok(name) = str::from_utf8(name) else { return false };
        match kind {
            MAP => apply_to_member(&mut self.maps, &mut self.bytes, name, bytes),
            QUEUE => apply_to_member(&mut self.queues, &mut self.bytes, name, bytes),
            _ => false,
        }
    }
}

/// The bytes for a member.
enum MemberBytes<'a> {
    Change(&'a [u8]),
    Item(&'a [u8]),
}

/// Applies `bytes` to the member called `name`, which is stored if it has content afterwards (BU2). `all_bytes` is the
/// sum over all items.
fn apply_to_member<S: BundleMember>(
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
            if !part.is_some_and(|(name, part)| self.apply_to(kind, name, MemberBytes::Change(part))) {
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
        head.is_some_and(|(kind, name)| self.apply_to(kind, name, MemberBytes::Item(steps.0)))
    }
}

/// Changes of a bundle's members that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleChange {
    maps: BTreeMap<String, MapBatch>,
    queues: BTreeMap<String, QueueBatch>,
}

impl BundleChange {
    /// Returns the changes of the map called `name`.
    pub fn map(&mut self, name: &str) -> &mut MapBatch {
        self.maps.entry(name.into()).or_default()
    }

    /// Returns the changes of the queue called `name`.
    pub fn queue(&mut self, name: &str) -> &mut QueueBatch {
        self.queues.entry(name.into()).or_default()
    }

    /// Refuses a change that pops from an empty queue.
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

    /// Returns the losses of a salvage; empty if nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        self.0.losses()
    }

    /// Calls `look` with the members, as of one moment.
    pub fn read<T>(&self, look: impl FnOnce(&BundleMembers) -> T) -> T {
        self.0.read(look)
    }

    /// Applies `change` to all members at once (BU1).
    ///
    /// # Errors
    /// [`Error::Refused`] if the change pops from an empty queue: nothing is changed. Also the errors of
    /// [`Logged::make`].
    pub fn commit(&self, change: &BundleChange) -> Result<()> {
        self.0.change(|members| {
            let fits = change.ensure_fits(members);
            (fits.is_ok().then(|| change.bytes()), fits)
        })?
    }

    /// Applies the change that `plan` builds from the members; no other change happens in between. If `plan` fails,
    /// nothing is changed. `plan` must not use the store otherwise: a backup waits for it, and a call that waits for
    /// the backup would hang.
    ///
    /// # Errors
    /// The errors of `plan` and of [`Bundle::commit`].
    pub fn change<T>(&self, plan: impl FnOnce(&BundleMembers, &mut BundleChange) -> Result<T>) -> Result<T> {
        self.0.change(|members| {
            let mut change = BundleChange::default();
            let result = plan(members, &mut change).and_then(|value| change.ensure_fits(members).map(|()| value));
            (result.is_ok().then(|| change.bytes()), result)
        })?
    }

    /// Stores a checkpoint now.
    ///
    /// # Errors
    /// The errors of [`Logged::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
}

#[cfg(test)]
mod tests;
