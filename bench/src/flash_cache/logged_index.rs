//! The paper's literal form of the hash table: in DRAM, with each change logged in persistent memory, and a checkpoint
//! after a number of changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::Guard;
use ferrite_object::{Logged, LoggedStructure, Logging, NewStore, OpenStore, Store};

use crate::Result;
use crate::objects::refused;
use crate::scratch::Scratch;

/// Changes of a checkpoint.
const CHECKPOINT_RECORDS: u64 = 16_384;
/// Pages of a LEB of 1 MiB.
pub const LEB_PAGES: u64 = 255;
/// Bytes of an entry: a block and its place.
const ENTRY: usize = 16;
/// Entries of one item of a checkpoint.
const ITEM_ENTRIES: usize = 256;

/// A hash table from blocks to their places.
#[derive(Default)]
struct BlockTable(HashMap<u64, u64>);

fn entries(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let word = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("eight bytes"));
    bytes.as_chunks::<ENTRY>().0.iter().map(move |entry| (word(&entry[..8]), word(&entry[8..])))
}

fn encode(of: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    of.flat_map(|(block, place)| [block.to_le_bytes(), place.to_le_bytes()]).flatten().collect()
}

impl LoggedStructure for BlockTable {
    const TYPE: &'static str = "block table";

    fn apply(&mut self, change: &[u8]) -> bool {
        self.0.extend(entries(change));
        change.len().is_multiple_of(ENTRY)
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        let mut all = self.0.iter().map(|(block, place)| (*block, *place));
        loop {
            let part = encode(all.by_ref().take(ITEM_ENTRIES));
            if part.is_empty() {
                return;
            }
            item(&[&part]);
        }
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        self.apply(item)
    }
}

/// The table beside a cache, whose changes it follows.
pub struct LoggedIndex {
    table: Arc<Logged<BlockTable>>,
    writes: AtomicU64,
    // Dropped last.
    _store: Store,
    _scratch: Scratch,
}

impl LoggedIndex {
    /// A table in a store of its own in `scratch`.
    pub fn new(scratch: Scratch) -> Result<Self> {
        let path = scratch.path("index");
        let new = NewStore { bytes: 128 << 20, uuid: [3; 16] };
        let open = OpenStore { guard: Some(Guard::None), ..OpenStore::default() };
        let store = Store::initialize(&path, &new, &open).map_err(refused)?;
        let logging = Logging { checkpoint_records: CHECKPOINT_RECORDS, ..Logging::default() };
        let table = store.logged("index", logging).map_err(refused)?;
        Ok(Self { table, writes: AtomicU64::new(0), _store: store, _scratch: scratch })
    }

    /// Changes the table as a write of `block` does: the block lies in a buffer now. Each LEB of such writes gives all its
    /// blocks places on an SSD.
    pub fn note_write(&self, block: u64) -> Result<()> {
        let make = |change: Vec<u8>| self.table.make(&change).map_err(refused);
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        make(encode([(block, writes)].into_iter()))?;
        if writes % LEB_PAGES == LEB_PAGES - 1 {
            make(encode((0..LEB_PAGES).map(|page| (block + page, writes))))?;
        }
        Ok(())
    }
}
