//! A durable map: bytes by bytes, in the order of the keys.
//!
//! ```text
//! change     steps one behind the other:
//!            1 key_len u32  value_len u32  key  value        put
//!            2 key_len u32  key                              remove
//!            3                                               clear
//! item       key_len u32  key  value
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::Result;
use crate::logged::{Logged, Structure};
use crate::step::{Steps, len_of};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const CLEAR: u8 = 3;

/// What a map holds, in DRAM.
#[derive(Debug, Default)]
pub struct Entries(BTreeMap<Vec<u8>, Vec<u8>>);

impl Entries {
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    /// What `key` has.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `count` keys with their values, in order, from the first on that is greater than `after`, or from the
    /// start.
    pub fn page(&self, after: Option<&[u8]>, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.0.range::<[u8], _>((from, Bound::Unbounded));
        range.take(count).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Sets what `key` has; where it has something, in the room of that.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.0.get_mut(key) {
            Some(room) => {
                room.clear();
                room.extend_from_slice(value);
            }
            None => _ = self.0.insert(key.into(), value.into()),
        }
    }
}

/// See [`Structure::growth`], where each item has `head_bytes` before it.
pub(crate) fn growth(change: &[u8], head_bytes: usize) -> u64 {
    let (mut steps, mut bytes) = (Steps(change), 0);
    while let Some(step) = steps.byte() {
        match step {
            PUT => bytes += steps.put().map_or(0, |(key, value)| 4 + head_bytes + 4 + key.len() + value.len()),
            REMOVE => _ = steps.sized(),
            _ => {}
        }
    }
    bytes as u64
}

impl Structure for Entries {
    const TYPE: &'static str = "map";

    fn apply(&mut self, change: &[u8]) -> bool {
        let mut steps = Steps(change);
        while let Some(step) = steps.byte() {
            let is_known = match step {
                PUT => steps.put().map(|(key, value)| self.put(key, value)).is_some(),
                REMOVE => steps.sized().map(|key| _ = self.0.remove(key)).is_some(),
                CLEAR => {
                    self.0.clear();
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
        growth(change, 0)
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.0.iter().for_each(|(key, value)| item(&[&len_of(key), key, value]));
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        let mut rest = Steps(item);
        rest.sized().map(|key| _ = self.0.insert(key.into(), rest.0.into())).is_some()
    }
}

/// Changes of a map that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapBatch(Vec<u8>);

impl MapBatch {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Sets what `key` has.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.0.reserve(9 + key.len() + value.len());
        self.0.push(PUT);
        self.0.extend_from_slice(&len_of(key));
        self.0.extend_from_slice(&len_of(value));
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
        self
    }

    /// Takes `key` away, if it is there.
    pub fn remove(&mut self, key: &[u8]) -> &mut Self {
        self.0.push(REMOVE);
        self.0.extend(len_of(key));
        self.0.extend(key);
        self
    }

    /// Takes every key away.
    pub fn clear(&mut self) -> &mut Self {
        self.0.push(CLEAR);
        self
    }
}

/// A durable map. Every change is durable when it returns; readers wait for no fence.
#[derive(Clone, Debug)]
pub struct Map(Arc<Logged<Entries>>);

impl Map {
    pub(crate) fn new(logged: Arc<Logged<Entries>>) -> Self {
        Self(logged)
    }

    /// What keeps it: checkpoints, losses.
    pub fn logged(&self) -> &Logged<Entries> {
        &self.0
    }

    /// What `key` has.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.read(|entries| entries.get(key))
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.read(|entries| entries.contains(key))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.read(Entries::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `count` keys with their values, in order, from the first on that is greater than `after`, or from the
    /// start. Each call sees the map as of one moment.
    pub fn page(&self, after: Option<&[u8]>, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.read(|entries| entries.page(after, count))
    }

    /// Sets what `key` has.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = MapBatch::default();
        batch.put(key, value);
        self.commit(&batch)
    }

    /// Takes `key` away; what it had.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.change(|entries| match entries.0.get(key) {
            Some(value) => (Some(MapBatch::default().remove(key).0.clone()), Some(value.clone())),
            None => (None, None),
        })
    }

    /// Takes every key away.
    pub fn clear(&self) -> Result<()> {
        self.commit(MapBatch::default().clear())
    }

    /// Makes all changes of `batch`, together also for a crash.
    pub fn commit(&self, batch: &MapBatch) -> Result<()> {
        self.0.make(&batch.0)
    }

    /// Takes a checkpoint now.
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
}
