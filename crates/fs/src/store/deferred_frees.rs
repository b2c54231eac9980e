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
    shards: [Padded<Mutex<Vec<Freed>>>; SHARDS],
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
    /// The lock of the file that they were of, if they were of one file.
    pub stripe: Option<u64>,
}

impl Freed {
    fn len(&self) -> usize {
        self.runs.len() + self.chunks.len()
    }

    /// Adds `self` to what waits.
    fn join(self, waiting: &mut Vec<Self>) {
        match waiting.last_mut().filter(|last| last.stripe == self.stripe) {
            Some(last) => last.extend(self),
            None => waiting.push(self),
        }
    }

    fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.chunks.extend(other.chunks);
    }
}

impl DeferredFrees {
    /// Adds freed space. If enough has collected, waits for pins and passes the reusable space to `bring_out`. While a
    /// stopped client is pinned, the space waits for [`DeferredFrees::drain`] (FG2).
    pub fn add(&self, freed: Freed, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        let mine = &self.shards[own_shard()].0;
        let is_much = {
            let mut mine = mine.lock();
            freed.join(&mut mine);
            mine.iter().map(Freed::len).sum::<usize>() >= WORTH_A_WAIT
        };
        if !is_much || clients.is_stuck() {
            return;
        }
        // The thread that drains everything returns this too.
        let Some(_sharing) = self.on_its_way.try_read() else { return };
        let ripe = std::mem::take(&mut *mine.lock());
        self.ripen(ripe, clients, bring_out);
    }

    /// Passes what may be reused of `freed` to `bring_out`. What a stopped client may still use waits here again (TI21).
    fn ripen(&self, freed: Vec<Freed>, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        if freed.is_empty() {
            return;
        }
        let have_ended = clients.wait_for_pins();
        let (kept, ripe): (Vec<Freed>, Vec<Freed>) =
            freed.into_iter().partition(|freed| !have_ended && clients.holds_back(freed.stripe));
        if !ripe.is_empty() {
            let mut all = Freed::default();
            ripe.into_iter().for_each(|freed| all.extend(freed));
            bring_out(&all);
            self.out.fetch_add(1, Ordering::SeqCst);
        }
        let mut mine = self.shards[own_shard()].0.lock();
        kept.into_iter().for_each(|freed| freed.join(&mut mine));
    }

    /// Passes all waiting space that may be reused to `bring_out`. The caller is not pinned.
    pub fn drain(&self, clients: &dyn Clients, bring_out: impl FnOnce(&Freed)) {
        if clients.has_orphaned_clients() {
            return;
        }
        let _alone = self.on_its_way.write();
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| all.append(&mut shard.0.lock()));
        self.ripen(all, clients, bring_out);
    }

    /// Returns how often space was returned: while it is unchanged, nothing has become free.
    pub fn turn(&self) -> u64 {
        self.out.load(Ordering::SeqCst)
    }

    /// Pages that wait, and chunks.
    pub fn count(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |count, shard| {
            shard.0.lock().iter().fold(count, |(pages, chunks), freed| {
                (pages + freed.runs.iter().map(|run| run.pages).sum::<u64>(), chunks + freed.chunks.len() as u64)
            })
        })
    }
}
