//! What tests read of the counters.

use super::*;

impl WearCounts {
    pub fn page_writes(&self, at: u64) -> u32 {
        let block = self.blocks[(at / BLOCK) as usize].get();
        block.map_or(0, |block| block.pages[(at % BLOCK / PAGE) as usize].load(Ordering::Relaxed))
    }

    pub fn line_writes(&self, at: u64) -> Option<u32> {
        let block = self.blocks[(at / BLOCK) as usize].get();
        let lines = block.and_then(|block| block.lines.get((at % BLOCK / PAGE) as usize)?.get());
        let writes = lines.map_or(0, |lines| lines[(at % PAGE / LINE) as usize].load(Ordering::Relaxed));
        (self.finest == WearUnit::Line).then_some(writes)
    }
}
