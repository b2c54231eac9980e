//! The block with the greatest key, of several the lowest.
//!
//! Keys lie in an array; above it lies the greatest of each 64, and so on up to one. A key that grows seldom passes the
//! greatest of its group, so it costs one store and one comparison; a key that falls costs a scan of 64 neighbours.

use super::FlashBlock;

const GROUP: usize = 64;

pub(in crate::ftl) struct Tournament {
    /// Keys first, then the levels above; the last level is one group.
    levels: Vec<Vec<u16>>,
}

impl Tournament {
    /// Returns `blocks` blocks whose keys are 0, so that none takes part.
    pub(super) fn new(blocks: usize) -> Self {
        let mut levels = vec![vec![0; blocks]];
        while let Some(last) = levels.last().filter(|last| last.len() > GROUP) {
            levels.push(vec![0; last.len().div_ceil(GROUP)]);
        }
        Self { levels }
    }

    /// Sets a key that does not fall.
    pub(super) fn raise(&mut self, block: FlashBlock, key: u16) {
        let mut at = block.0 as usize;
        for level in &mut self.levels {
            if level[at] >= key {
                return;
            }
            level[at] = key;
            at /= GROUP;
        }
    }

    /// Sets any key.
    pub(super) fn set(&mut self, block: FlashBlock, key: u16) {
        let mut at = block.0 as usize;
        self.levels[0][at] = key;
        for above in 1..self.levels.len() {
            let group = at / GROUP;
            self.levels[above][group] = greatest(self.group(above - 1, group));
            at = group;
        }
    }

    fn group(&self, level: usize, group: usize) -> &[u16] {
        let all = &self.levels[level];
        let first = group * GROUP;
        &all[first..all.len().min(first + GROUP)]
    }

    /// Returns the first block of the greatest key and sets its key to 0; `None` if no block takes part.
    pub(super) fn take(&mut self) -> Option<FlashBlock> {
        let top = self.levels.len() - 1;
        let key = greatest(self.group(top, 0));
        if key == 0 {
            return None;
        }
        let mut at = 0;
        for level in (0..=top).rev() {
            let first = self.group(level, at).iter().position(|other| *other == key);
            at = at * GROUP + first.expect("a group has the greatest key of its group above");
        }
        let block = FlashBlock(at as u32);
        self.set(block, 0);
        Some(block)
    }
}

fn greatest(keys: &[u16]) -> u16 {
    keys.iter().copied().fold(0, u16::max)
}

#[cfg(test)]
mod tests;
