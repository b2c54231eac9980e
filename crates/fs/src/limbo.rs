//! Pages and chunks that are free, and that readers may still copy from.
//!
//! What was freed by a committed change waits here until the pins of before are gone (FL2). One wait does for many.

use parking_lot::Mutex;

use crate::bits::Run;
use crate::direct::abroad::Abroad;
use crate::gate::{Padded, SHARDS, usual_shard};

/// Runs for which it pays to wait for readers.
const WORTH_A_WAIT: usize = 64;

/// What waits, by the thread that freed it.
#[derive(Debug, Default)]
pub(crate) struct Limbo([Padded<Mutex<Freed>>; SHARDS]);

/// Runs of pages, and superpages by their chunks.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    pub runs: Vec<Run>,
    pub chunks: Vec<u64>,
}

impl Freed {
    fn len(&self) -> usize {
        self.runs.len() + self.chunks.len()
    }
}

impl Limbo {
    /// Adds what was freed; what may be used again, if it was worth a wait. While a client is stopped with a pin all of it
    /// waits on (FG2).
    pub fn add(&self, freed: Freed, abroad: &Abroad) -> Option<Freed> {
        let mut mine = self.0[usual_shard()].0.lock();
        mine.runs.extend(freed.runs);
        mine.chunks.extend(freed.chunks);
        let ripe = (mine.len() >= WORTH_A_WAIT && !abroad.is_stuck()).then(|| std::mem::take(&mut *mine));
        drop(mine);
        ripe.and_then(|ripe| self.ripened(ripe, abroad))
    }

    /// What may be used again now; `None` puts it back.
    fn ripened(&self, ripe: Freed, abroad: &Abroad) -> Option<Freed> {
        if abroad.wait_for_pins() {
            return Some(ripe);
        }
        let mut mine = self.0[usual_shard()].0.lock();
        mine.runs.extend(ripe.runs);
        mine.chunks.extend(ripe.chunks);
        None
    }

    /// All that waits, to be used again. The caller is not pinned.
    pub fn drain(&self, abroad: &Abroad) -> Freed {
        let mut all = Freed::default();
        if abroad.is_stuck() {
            return all;
        }
        for shard in &self.0 {
            let freed = std::mem::take(&mut *shard.0.lock());
            all.runs.extend(freed.runs);
            all.chunks.extend(freed.chunks);
        }
        if all.len() == 0 {
            return all;
        }
        self.ripened(all, abroad).unwrap_or_default()
    }

    /// Pages that wait, and chunks.
    pub fn count(&self) -> (u64, u64) {
        self.0.iter().map(|shard| shard.0.lock()).fold((0, 0), |(pages, chunks), freed| {
            (pages + freed.runs.iter().map(|run| run.pages).sum::<u64>(), chunks + freed.chunks.len() as u64)
        })
    }
}
