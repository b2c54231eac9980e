//! Writing map words on the medium and showing them to readers; the rules are in [`crate::write`].

use ferrite_memory::{Error, Result, planted};

use crate::dirty::DirtyBlocks;
use crate::disk::{BlockDisk, medium_error};
use crate::map::{MapEntry, MapWord};
use crate::shape::BLOCK;
use crate::stages::DiskStage;

/// The words of one batch, before and after.
pub(crate) struct WordChange<'batch> {
    pub first: u64,
    pub old: &'batch [MapEntry],
    pub new: &'batch [MapEntry],
    /// The checksums of the blocks in `new`; zeros if the disk keeps none.
    pub checksums: &'batch [u32],
}

impl WordChange<'_> {
    pub fn words(&self) -> impl ExactSizeIterator<Item = MapWord> {
        self.new.iter().zip(self.checksums).map(|(entry, checksum)| MapWord::of(*entry, *checksum))
    }
}

impl BlockDisk {
    /// Makes the data durable, writes the words, shows them to readers and unlocks them.
    pub(crate) fn commit(&self, change: &WordChange<'_>) -> Result<()> {
        if let Some(dirty) = &self.dirty {
            self.memory.fence();
            self.timed(DiskStage::Map, || self.defer(dirty, change));
            return Ok(());
        }
        self.fence_data();
        self.timed(DiskStage::Map, || self.map.publish(self.pool.memory(), change.first, change.words()));
        self.memory.fence();
        if self.options.verify && !self.timed(DiskStage::Verify, || self.words_arrived(change)) {
            return Err(self.show_arrived(change));
        }
        self.timed(DiskStage::Map, || {
            self.show(change);
            self.free.free(change.old.iter().filter_map(|entry| entry.block()));
        });
        Ok(())
    }

    /// Restores the state before a change whose words are not on the medium yet.
    pub(crate) fn abandon(&self, change: &WordChange<'_>) {
        self.memory.fence();
        self.unlock(change.first, change.old);
        let blocks: Vec<u32> = change.new.iter().filter_map(|entry| entry.block()).map(|block| block as u32).collect();
        self.free.put_last(&blocks);
    }

    /// Shows a change to readers.
    fn show(&self, change: &WordChange<'_>) {
        self.note_checksums(change.first, change.checksums);
        self.map.group(change.first, change.new, |block| self.place(block));
        self.unlock(change.first, change.new);
    }

    /// Stores the checksums of locked blocks, if the disk keeps checksums.
    pub(crate) fn note_checksums(&self, first: u64, checksums: &[u32]) {
        if let Some(kept) = &self.checksums {
            (first..).zip(checksums).for_each(|(index, checksum)| kept.set(index, *checksum));
        }
    }

    /// Returns true if the medium holds the words of a change (B8). Words that wait for a flush are not compared.
    pub(crate) fn words_arrived(&self, change: &WordChange<'_>) -> bool {
        (change.first..).zip(change.words()).all(|(index, word)| {
            let found = self.map.published_one(self.pool.memory(), index);
            found == word || (self.dirty.is_some() && found.entry() != word.entry())
        })
    }

    /// Shows the words of a change that arrived, and restores the others (B8).
    #[cold]
    fn show_arrived(&self, change: &WordChange<'_>) -> Error {
        let mut lost = None;
        for (i, word) in change.words().enumerate() {
            let index = change.first + i as u64;
            let found = self.map.published_one(self.pool.memory(), index);
            let (shown, other) = if found == word {
                self.note_checksums(index, &[word.checksum()]);
                (change.new[i], change.old[i])
            } else {
                lost.get_or_insert(index);
                self.map.publish_one(self.pool.memory(), index, self.word_of(index, change.old[i]));
                (change.old[i], change.new[i])
            };
            self.memory.fence();
            self.map.unlock(index, shown);
            self.free.free(other.block());
        }
        Error::Damaged(lost.unwrap_or(change.first) * BLOCK)
    }

    /// Returns the word of block `index` with `entry`.
    pub(crate) fn word_of(&self, index: u64, entry: MapEntry) -> MapWord {
        match &self.checksums {
            Some(checksums) if entry != MapEntry::ZERO => MapWord::of(entry, checksums.get(index)),
            _ => MapWord::of(entry, 0),
        }
    }

    /// Shows a change to readers now and marks its words for the next flush (B5).
    fn defer(&self, dirty: &DirtyBlocks, change: &WordChange<'_>) {
        self.note_checksums(change.first, change.checksums);
        self.map.group(change.first, change.new, |block| self.place(block));
        for (i, (old, new)) in change.old.iter().zip(change.new).enumerate() {
            let index = change.first + i as u64;
            let was_dirty = dirty.mark(index);
            self.map.unlock(index, *new);
            if let (true, Some(block)) = (was_dirty, old.block()) {
                self.free.free([block]);
            }
        }
    }

    /// Makes every completed write durable.
    pub(crate) fn flush_map(&self) -> Result<()> {
        self.pool.check_poison().map_err(medium_error)?;
        match &self.dirty {
            Some(dirty) => self.publish(dirty),
            None => Ok(()),
        }
    }

    /// Writes the marked words and makes everything durable (B5).
    pub(crate) fn publish(&self, dirty: &DirtyBlocks) -> Result<()> {
        let _one = self.publishing.lock();
        let mut waiting = self.timed(DiskStage::Map, || self.take_waiting(dirty));
        self.barrier_data()?;
        if waiting.is_empty() {
            return Ok(());
        }
        let publish = |(index, word): &mut (u64, MapWord)| self.publish_word(*index, word);
        let freed: Vec<u64> = self.timed(DiskStage::Map, || waiting.iter_mut().filter_map(publish).collect());
        self.memory.fence();
        self.barrier()?;
        if self.options.verify {
            self.timed(DiskStage::Verify, || self.verify_published(dirty, &waiting))?;
        }
        self.free.free(freed);
        Ok(())
    }

    /// Clears the marks, and returns each marked index with its word.
    fn take_waiting(&self, dirty: &DirtyBlocks) -> Vec<(u64, MapWord)> {
        let take = |index| {
            let entry = self.map.lock(index);
            dirty.clear(index);
            let word = self.word_of(index, entry);
            self.map.unlock(index, entry);
            (index, word)
        };
        dirty.marked(self.blocks()).map(take).collect()
    }

    /// Writes a word whose data is durable. Returns the block that the word on the medium named before, if that is
    /// another one.
    fn publish_word(&self, index: u64, word: &mut MapWord) -> Option<u64> {
        let before = self.map.published_one(self.pool.memory(), index).entry();
        if self.locks_overwrites() {
            // A writer may be overwriting the block and its checksum now (B7).
            let now = self.map.lock(index);
            if now == word.entry() {
                *word = self.word_of(index, now);
            }
            self.map.publish_one(self.pool.memory(), index, *word);
            self.memory.fence();
            self.map.unlock(index, now);
        } else {
            self.map.publish_one(self.pool.memory(), index, *word);
        }
        before.block().filter(|_| before != word.entry())
    }

    /// Verifies words that a flush has written (B8). Words that did not arrive are marked for the next flush. The
    /// blocks that the medium still names in their place stay unused until the disk is opened again.
    fn verify_published(&self, dirty: &DirtyBlocks, waiting: &[(u64, MapWord)]) -> Result<()> {
        let names_another =
            |index: u64, word: MapWord| self.map.published_one(self.pool.memory(), index).entry() != word.entry();
        let lost: Vec<u64> =
            waiting.iter().filter(|(index, word)| names_another(*index, *word)).map(|(index, _)| *index).collect();
        lost.iter().for_each(|index| _ = dirty.mark(*index));
        lost.first().map_or(Ok(()), |index| Err(Error::Damaged(index * BLOCK)))
    }

    pub(crate) fn unlock(&self, first: u64, entries: &[MapEntry]) {
        for (i, entry) in entries.iter().enumerate() {
            self.map.unlock(first + i as u64, *entry);
        }
    }

    /// Makes blocks available if fewer than `needed` are free: flushes the map, recalls the stashes, grows a thin disk
    /// that is short, or yields to other writers.
    pub(crate) fn find_space(&self, needed: u64) -> Result<()> {
        if let Some(dirty) = &self.dirty {
            self.publish(dirty)?;
        }
        self.free.recall();
        let is_short = self.room.as_ref().is_some_and(|room| !room.has(0));
        if is_short && self.free.count() < needed {
            return self.grow_thin(needed);
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Makes data durable before its word is written, if a fence is durable (B1).
    pub(crate) fn fence_data(&self) {
        if planted!("block: word before data") {
            return;
        }
        self.memory.fence();
    }

    /// Makes data durable before its word is written, if a fence is not durable (B1).
    fn barrier_data(&self) -> Result<()> {
        if planted!("block: word before data") {
            return Ok(());
        }
        self.barrier()
    }

    fn barrier(&self) -> Result<()> {
        self.memory.barrier().inspect_err(|error| self.pool.poison(error))
    }
}
