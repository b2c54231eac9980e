//! Flushing the map: words that wait in DRAM reach the medium (B5). The rules are in [`crate::write`].

use ferrite_memory::{Error, Result, planted};

use crate::dirty::DirtyBlocks;
use crate::disk::{BlockDisk, medium_error};
use crate::map::{MapEntry, MapWord};
use crate::shape::BLOCK;
use crate::stages::DiskStage;

/// A flush of the words that are marked as dirty.
struct MapFlush<'disk> {
    disk: &'disk BlockDisk,
    dirty: &'disk DirtyBlocks,
}

impl MapFlush<'_> {
    /// Writes the marked words and makes everything durable (B5).
    fn run(&self) -> Result<()> {
        let _one = self.disk.publishing.lock();
        let mut waiting = self.disk.timed(DiskStage::Map, || self.take_waiting());
        self.barrier_data()?;
        if waiting.is_empty() {
            return Ok(());
        }
        let publish = |(index, word): &mut (u64, MapWord)| self.publish_word(*index, word);
        let freed: Vec<u64> = self.disk.timed(DiskStage::Map, || waiting.iter_mut().filter_map(publish).collect());
        self.disk.memory.fence();
        self.barrier()?;
        if self.disk.options.verify {
            self.disk.timed(DiskStage::Verify, || self.verify_published(&waiting))?;
        }
        self.disk.free.free(freed);
        Ok(())
    }

    /// Clears the marks, and returns each marked index with its word.
    fn take_waiting(&self) -> Vec<(u64, MapWord)> {
        let take = |index| {
            let entry = self.disk.map.lock(index);
            self.dirty.clear(index);
            let word = self.disk.word_of(index, entry);
            self.disk.map.unlock(index, entry);
            (index, word)
        };
        self.dirty.marked(self.disk.blocks()).map(take).collect()
    }

    /// Writes a word whose data is durable. Returns the block that the word on the medium named before, if that is
    /// another one.
    fn publish_word(&self, index: u64, word: &mut MapWord) -> Option<u64> {
        let before = self.disk.map.published_one(self.disk.pool.memory(), index).entry();
        if self.disk.locks_overwrites() {
            // A writer may be overwriting the block and its checksum now (B7).
            let now = self.disk.map.lock(index);
            if now == word.entry() {
                *word = self.disk.word_of(index, now);
            }
            self.disk.map.publish_one(self.disk.pool.memory(), index, *word);
            self.disk.memory.fence();
            self.disk.map.unlock(index, now);
        } else {
            self.disk.map.publish_one(self.disk.pool.memory(), index, *word);
        }
        before.block().filter(|_| before != word.entry())
    }

    /// Verifies words that a flush has written (B8). Words that did not arrive are marked for the next flush. The
    /// blocks that the medium still names in their place stay unused until the disk is opened again.
    fn verify_published(&self, waiting: &[(u64, MapWord)]) -> Result<()> {
        let names_another = |index: u64, word: MapWord| {
            self.disk.map.published_one(self.disk.pool.memory(), index).entry() != word.entry()
        };
        let lost: Vec<u64> =
            waiting.iter().filter(|(index, word)| names_another(*index, *word)).map(|(index, _)| *index).collect();
        lost.iter().for_each(|index| _ = self.dirty.mark(*index));
        lost.first().map_or(Ok(()), |index| Err(Error::Damaged(index * BLOCK)))
    }

    /// Makes data durable before its word is written, if a fence is not durable (B1).
    fn barrier_data(&self) -> Result<()> {
        if planted!("block: word before data") {
            return Ok(());
        }
        self.barrier()
    }

    fn barrier(&self) -> Result<()> {
        self.disk.memory.barrier().inspect_err(|error| self.disk.pool.poison(error))
    }
}

impl BlockDisk {
    /// Makes every completed write durable.
    pub(crate) fn flush_map(&self) -> Result<()> {
        self.pool.check_poison().map_err(medium_error)?;
        match &self.dirty {
            Some(dirty) => MapFlush { disk: self, dirty }.run(),
            None => Ok(()),
        }
    }

    /// Makes blocks available if fewer than `needed` are free: flushes the map, recalls the stashes, grows a thin disk
    /// that is short, or yields to other writers.
    pub(crate) fn find_space(&self, needed: u64) -> Result<()> {
        if let Some(dirty) = &self.dirty {
            MapFlush { disk: self, dirty }.run()?;
        }
        self.free.recall();
        let is_short = self.room.as_ref().is_some_and(|room| !room.has(0));
        if is_short && self.free.count() < needed {
            return self.grow_thin(needed);
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Returns the word of block `index` with `entry`.
    pub(crate) fn word_of(&self, index: u64, entry: MapEntry) -> MapWord {
        match &self.checksums {
            Some(checksums) if entry != MapEntry::ZERO => MapWord::of(entry, checksums.get(index)),
            _ => MapWord::of(entry, 0),
        }
    }

    /// Stores the checksums of locked blocks, if the disk keeps checksums.
    pub(crate) fn note_checksums(&self, first: u64, checksums: &[u32]) {
        if let Some(kept) = &self.checksums {
            (first..).zip(checksums).for_each(|(index, checksum)| kept.set(index, *checksum));
        }
    }

    pub(crate) fn unlock(&self, first: u64, entries: &[MapEntry]) {
        for (i, entry) in entries.iter().enumerate() {
            self.map.unlock(first + i as u64, *entry);
        }
    }

    /// Makes data durable before its word is written, if a fence is durable (B1).
    pub(crate) fn fence_data(&self) {
        if planted!("block: word before data") {
            return;
        }
        self.memory.fence();
    }
}
