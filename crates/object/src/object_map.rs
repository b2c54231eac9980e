//! A durable map from bytes to bytes, in the order of the keys.
//!
//! ```text
//! change  adjacent steps:
//!   1 key_len u32  value_len u32  key  value     put
//!   2 key_len u32  key                           remove
//!   3                                            clear
//! item    key_len u32  key  value
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::Result;
use crate::bundle::BundleMember;
use crate::change_steps::{ChangeSteps, len_of};
use crate::logged::{Logged, LoggedStructure, SalvageLoss};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const CLEAR: u8 = 3;

/// The content of a map, in DRAM.
#[derive(Debug, Default)]
pub struct MapEntries {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of all keys and values.
    bytes: usize,
}

impl MapEntries {
    pub(crate) const NONE: Self = Self { values: BTreeMap::new(), bytes: 0 };

    /// Returns the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.values.get(key).cloned()
    }

    /// Returns true if the map has `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.values.contains_key(key)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns up to `count` keys with their values, in order, from the first key greater than `after`, or from the
    /// start.
    pub fn page(&self, after: Option<&[u8]>, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.values.range::<[u8], _>((from, Bound::Unbounded));
        range.take(count).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Sets the value of `key`; an existing value is overwritten in its buffer.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.values.get_mut(key) {
            Some(room) => {
                self.bytes = self.bytes - room.len() + value.len();
                room.clear();
                room.extend_from_slice(value);
            }
            None => {
                self.bytes += key.len() + value.len();
                self.values.insert(key.into(), value.into());
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        self.bytes -= self.values.remove(key).map_or(0, |value| key.len() + value.len());
    }
}

/// Returns the bytes of an item before its key, with `head_bytes` before it.
fn before_key(head_bytes: usize) -> usize {
    4 + head_bytes + 4
}

impl BundleMember for MapEntries {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn growth_below(change: &[u8], head_bytes: usize) -> u64 {
        let (mut steps, mut bytes) = (ChangeSteps(change), 0);
        while let Some(step) = steps.byte() {
            match step {
                PUT => bytes += steps.put().map_or(0, |(key, value)| before_key(head_bytes) + key.len() + value.len()),
                REMOVE => _ = steps.sized(),
                _ => {}
            }
        }
        bytes as u64
    }

    fn bytes_after(&self, change: &[u8], head_bytes: usize) -> u64 {
        let mut bytes = self.len() * before_key(head_bytes) + self.bytes;
        // For each key that the steps so far touched: the bytes of its value, if it has one.
        let (mut touched, mut is_cleared) = (BTreeMap::new(), false);
        let mut steps = ChangeSteps(change);
        while let Some(step) = steps.byte() {
            let touch = match step {
                PUT => steps.put().map(|(key, value)| (key, Some(value.len()))),
                REMOVE => steps.sized().map(|key| (key, None)),
                _ => {
                    touched.clear();
                    (bytes, is_cleared) = (0, true);
                    continue;
                }
            };
            let Some((key, value)) = touch else { break };
            let untouched = || self.values.get(key).filter(|_| !is_cleared).map(Vec::len);
            let before = touched.insert(key, value).unwrap_or_else(untouched);
            let item_bytes = |value: Option<usize>| value.map_or(0, |value| before_key(head_bytes) + key.len() + value);
            bytes = bytes + item_bytes(value) - item_bytes(before);
        }
        bytes as u64
    }
}

impl LoggedStructure for MapEntries {
    const TYPE: &'static str = "map";

    fn apply(&mut self, change: &[u8]) -> bool {
        let mut steps = ChangeSteps(change);
        while let Some(step) = steps.byte() {
            let is_known = match step {
                PUT => steps.put().map(|(key, value)| self.put(key, value)).is_some(),
                REMOVE => steps.sized().map(|key| self.remove(key)).is_some(),
                CLEAR => {
                    *self = Self::NONE;
                    true
                }
                _ => false,
            };
            if !is_known {
                return false;
            }
        }
        true
    }

    fn growth(change: &[u8]) -> u64 {
        Self::growth_below(change, 0)
    }

    fn content_after(&self, change: &[u8]) -> u64 {
        self.bytes_after(change, 0)
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.values.iter().for_each(|(key, value)| item(&[&len_of(key), key, value]));
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        let mut rest = ChangeSteps(item);
        rest.sized().map(|key| self.put(key, rest.0)).is_some()
    }
}

/// Changes of a map that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapBatch(Vec<u8>);

impl MapBatch {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.0.reserve(9 + key.len() + value.len());
        self.0.push(PUT);
        self.0.extend_from_slice(&len_of(key));
        self.0.extend_from_slice(&len_of(value));
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
        self
    }

    /// Removes `key`, if the map has it.
    pub fn remove(&mut self, key: &[u8]) -> &mut Self {
        self.0.push(REMOVE);
        self.0.extend(len_of(key));
        self.0.extend(key);
        self
    }

    /// Removes every key.
    pub fn clear(&mut self) -> &mut Self {
        self.0.push(CLEAR);
        self
    }
}

/// A durable map. Every change is durable when its call returns; readers wait for no fence.
#[derive(Clone, Debug)]
pub struct Map(pub(crate) Arc<Logged<MapEntries>>);

impl Map {
    pub(crate) fn new(logged: Arc<Logged<MapEntries>>) -> Self {
        Self(logged)
    }

    /// Returns the losses of a salvage; empty if nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        self.0.losses()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.read(|entries| entries.get(key))
    }

    /// Returns true if the map has `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.read(|entries| entries.contains(key))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.read(MapEntries::len)
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns up to `count` keys with their values, in order, from the first key greater than `after`, or from the
    /// start. Each call sees the map as of one moment.
    pub fn page(&self, after: Option<&[u8]>, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.read(|entries| entries.page(after, count))
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// The errors of [`Logged::make`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.ensure_fits(key.len().saturating_add(value.len()))?;
        let mut batch = MapBatch::default();
        batch.put(key, value);
        self.commit(&batch)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// The errors of [`Logged::make`], except for lack of space.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.change(|entries| match entries.values.get(key) {
            Some(value) => (Some(MapBatch::default().remove(key).0.clone()), Some(value.clone())),
            None => (None, None),
        })
    }

    /// Removes every key.
    ///
    /// # Errors
    /// The errors of [`Logged::make`], except for lack of space.
    pub fn clear(&self) -> Result<()> {
        self.commit(MapBatch::default().clear())
    }

    /// Applies all changes of `batch`, together also in a crash.
    ///
    /// # Errors
    /// The errors of [`Logged::make`].
    pub fn commit(&self, batch: &MapBatch) -> Result<()> {
        self.0.make(&batch.0)
    }

    /// Stores a checkpoint now.
    ///
    /// # Errors
    /// The errors of [`Logged::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
}
