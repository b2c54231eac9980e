//! How a change is named on the medium, and shown to readers: see [`crate::write`].

use ferrite_memory::{Error, Result, planted};

use crate::dirty::Dirty;
use crate::disk::{BlockDisk, medium_error};
use crate::map::{Entry, Word};
use crate::shape::BLOCK;
use crate::stages::Stage;

/// The words of one batch, before and after.
pub(crate) struct Change<'batch> {
    pub first: u64,
    pub old: &'batch [Entry],
    pub new: &'batch [Entry],
    /// Of what `new` names; zeros where the disk keeps none.
    pub checksums: &'batch [u32],
}

impl Change<'_> {
    pub fn words(&self) -> impl ExactSizeIterator<Item = Word> {
        self.new.iter().zip(self.checksums).map(|(entry, checksum)| Word::of(*entry, *checksum))
    }
}

impl BlockDisk {
    /// Carries a change through and unlocks the words.
    pub(crate) fn commit(&self, change: &Change<'_>) -> Result<()> {
        if let Some(dirty) = &self.dirty {
            self.memory.fence();
            self.timed(Stage::Map, || self.defer(dirty, change));
            return Ok(());
        }
        self.settle_data();
        self.timed(Stage::Map, || self.map.publish(self.pool.memory(), change.first, change.words()));
        self.memory.fence();
        if self.options.verify && !self.timed(Stage::Verify, || self.words_arrived(change)) {
            return Err(self.show_what_arrived(change));
        }
        self.timed(Stage::Map, || {
            self.show(change);
            self.free.free(change.old.iter().filter_map(|entry| entry.block()));
        });
        Ok(())
    }

    /// Leaves everything as it was before a change of which nothing is on the map yet.
    pub(crate) fn give_up(&self, change: &Change<'_>) {
        self.memory.fence();
        self.unlock(change.first, change.old);
        let blocks: Vec<u32> = change.new.iter().filter_map(|entry| entry.block()).map(|block| block as u32).collect();
        self.free.put_last(&blocks);
    }

    /// Shows a change to readers.
    fn show(&self, change: &Change<'_>) {
        self.note_checksums(change.first, change.checksums);
        self.map.group(change.first, change.new, |block| self.place(block));
        self.unlock(change.first, change.new);
    }

    /// Notes what is kept of blocks that are locked, if anything is.
    pub(crate) fn note_checksums(&self, first: u64, checksums: &[u32]) {
        if let Some(kept) = &self.checksums {
            (first..).zip(checksums).for_each(|(index, checksum)| kept.set(index, *checksum));
        }
    }

    /// B8: whether the medium holds the words of a change, but for those that wait for a flush.
    pub(crate) fn words_arrived(&self, change: &Change<'_>) -> bool {
        (change.first..).zip(change.words()).all(|(index, word)| {
            let found = self.map.published_one(self.pool.memory(), index);
            found == word || (self.dirty.is_some() && found.entry() != word.entry())
        })
    }

    /// Shows those words of a change that arrived, and leaves the others as they were (B8).
    #[cold]
    fn show_what_arrived(&self, change: &Change<'_>) -> Error {
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

    /// The word of `entry`, which block `index` names.
    pub(crate) fn word_of(&self, index: u64, entry: Entry) -> Word {
        match &self.checksums {
            Some(checksums) if entry != Entry::ZERO => Word::of(entry, checksums.get(index)),
            _ => Word::of(entry, 0),
        }
    }

    /// Shows a change to readers now and leaves its words on the medium to the next flush (B5).
    fn defer(&self, dirty: &Dirty, change: &Change<'_>) {
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

    /// Makes everything that completed before durable.
    pub(crate) fn settle(&self) -> Result<()> {
        self.pool.check_poison().map_err(medium_error)?;
        match &self.dirty {
            Some(dirty) => self.publish(dirty),
            None => Ok(()),
        }
    }

    /// Writes the words that wait and makes everything durable (B5).
    pub(crate) fn publish(&self, dirty: &Dirty) -> Result<()> {
        let _one = self.publishing.lock();
        let mut waiting = self.timed(Stage::Map, || self.take_waiting(dirty));
        self.settle_deferred_data()?;
        if waiting.is_empty() {
            return Ok(());
        }
        let publish = |(index, word): &mut (u64, Word)| self.publish_word(*index, word);
        let freed: Vec<u64> = self.timed(Stage::Map, || waiting.iter_mut().filter_map(publish).collect());
        self.memory.fence();
        self.barrier()?;
        if self.options.verify {
            self.timed(Stage::Verify, || self.verify_published(dirty, &waiting))?;
        }
        self.free.free(freed);
        Ok(())
    }

    /// Clears the marks and returns the words that were marked, with their indexes.
    fn take_waiting(&self, dirty: &Dirty) -> Vec<(u64, Word)> {
        let take = |index| {
            let entry = self.map.lock(index);
            dirty.clear(index);
            let word = self.word_of(index, entry);
            self.map.unlock(index, entry);
            (index, word)
        };
        dirty.marked(self.blocks()).map(take).collect()
    }

    /// Writes a word whose data is durable; the block that the word on the medium named before, if it is another one.
    fn publish_word(&self, index: u64, word: &mut Word) -> Option<u64> {
        let before = self.map.published_one(self.pool.memory(), index).entry();
        if self.overwrites_with_care() {
            // The block may be written in place meanwhile, and the checksum with it (B7).
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

    /// B8 for words that waited. Those that did not arrive wait for the next flush; what the medium named before in
    /// their stead is not used again until the disk is opened anew.
    fn verify_published(&self, dirty: &Dirty, waiting: &[(u64, Word)]) -> Result<()> {
        let names_another =
            |index: u64, word: Word| self.map.published_one(self.pool.memory(), index).entry() != word.entry();
        let lost: Vec<u64> =
            waiting.iter().filter(|(index, word)| names_another(*index, *word)).map(|(index, _)| *index).collect();
        lost.iter().for_each(|index| _ = dirty.mark(*index));
        lost.first().map_or(Ok(()), |index| Err(Error::Damaged(index * BLOCK)))
    }

    pub(crate) fn unlock(&self, first: u64, entries: &[Entry]) {
        for (i, entry) in entries.iter().enumerate() {
            self.map.unlock(first + i as u64, *entry);
        }
    }

    /// What to do when fewer than `needed` blocks are found: publish, look into stashes, grow if a thin disk has less than
    /// it should keep, or let other writers finish.
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

    /// B1, where a fence is durable.
    pub(crate) fn settle_data(&self) {
        if planted!("block: word before data") {
            return;
        }
        self.memory.fence();
    }

    /// B1, where it is not.
    fn settle_deferred_data(&self) -> Result<()> {
        if planted!("block: word before data") {
            return Ok(());
        }
        self.barrier()
    }

    fn barrier(&self) -> Result<()> {
        self.memory.barrier().inspect_err(|error| self.pool.poison(error))
    }
}
