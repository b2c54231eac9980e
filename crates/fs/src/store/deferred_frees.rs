//! Pages and chunks that are free, and that readers may still copy from.
//!
//! Space that a committed change freed waits here until all earlier pins have ended (FL2). One wait serves many frees.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::store::bits::PageRun;
use crate::store::clients::Clients;
use ferrite_memory::shard::{Padded, SHARDS, own_shard};

/// Runs for which it pays to wait for readers.
const WORTH_A_WAIT: usize = 64;

/// What waits, by the thread that freed it.
#[derive(Debug, Default)]
pub(crate) struct DeferredFrees {
    shards: [Padded<Mutex<Freed>>; SHARDS],
    /// Held shared while freed space is returned, and exclusively by `drain`: an allocator never misses space that is
    /// being returned.
    on_its_way: RwLock<()>,
    /// How often space was returned.
    out: AtomicU64,
}

/// Runs of pages, and superpages by their chunks.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    pub runs: Vec<PageRun>,
    pub chunks: Vec<u64>,
}

impl Freed {
    fn len(&self) -> usize {
        self.runs.len() + self.chunks.len()
    }

    fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.chunks.extend(other.chunks);
    }
}

impl DeferredFrees {
    /// Adds freed space. If enough has collected, waits for pins and passes the reusable space to `bring_out`. While a
    /// stopped client is pinned, all of it waits (FG2).
    pub fn add(&self, freed: Freed, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        let mine = &self.shards[own_shard()].0;
        let is_much = {
            let mut mine = mine.lock();
            mine.extend(freed);
            mine.len() >= WORTH_A_WAIT
        };
        if !is_much || clients.is_stuck() {
            return;
        }
        // The thread that drains everything returns this too.
        let Some(_sharing) = self.on_its_way.try_read() else { return };
        let ripe = std::mem::take(&mut *mine.lock());
        self.ripen(ripe, clients, bring_out);
    }

    /// Passes `ripe` to `bring_out` once it may be reused. If that takes too long, it waits here again.
    fn ripen(&self, ripe: Freed, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        if ripe.len() == 0 {
            return;
        }
        if clients.wait_for_pins() {
            bring_out(&ripe);
            self.out.fetch_add(1, Ordering::SeqCst);
        } else {
            self.shards[own_shard()].0.lock().extend(ripe);
        }
    }

    /// Passes all waiting space to `bring_out`. The caller is not pinned.
    pub fn drain(&self, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        if clients.is_stuck() {
            return;
        }
        let _alone = self.on_its_way.write();
        let mut all = Freed::default();
        self.shards.iter().for_each(|shard| all.extend(std::mem::take(&mut *shard.0.lock())));
        self.ripen(all, clients, bring_out);
    }

    /// Returns how often space was returned: while it is unchanged, nothing has become free.
    pub fn turn(&self) -> u64 {
        self.out.load(Ordering::SeqCst)
    }

    /// Pages that wait, and chunks.
    pub fn count(&self) -> (u64, u64) {
        self.shards.iter().map(|shard| shard.0.lock()).fold((0, 0), |(pages, chunks), freed| {
            (pages + freed.runs.iter().map(|run| run.pages).sum::<u64>(), chunks + freed.chunks.len() as u64)
        })
    }
}
