//! The change of a few map words: on the medium, and for readers. The rules are in [`crate::write`].

use ferrite_memory::{Error, Result};

use crate::dirty::DirtyBlocks;
use crate::disk::BlockDisk;
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

    /// Makes the data durable, writes the words, shows them to readers and unlocks them.
    pub(crate) fn commit(&self, disk: &BlockDisk) -> Result<()> {
        if let Some(dirty) = &disk.dirty {
            disk.memory.fence();
            disk.timed(DiskStage::Map, || self.defer(disk, dirty));
            return Ok(());
        }
        disk.fence_data();
        disk.timed(DiskStage::Map, || disk.map.publish(disk.pool.memory(), self.first, self.words()));
        disk.memory.fence();
        if disk.options.verify && !disk.timed(DiskStage::Verify, || self.words_arrived(disk)) {
            return Err(self.show_arrived(disk));
        }
        disk.timed(DiskStage::Map, || {
            self.show(disk);
            disk.free.free(self.old.iter().filter_map(|entry| entry.block()));
        });
        Ok(())
    }

    /// Restores the state before a change whose words are not on the medium yet.
    pub(crate) fn abandon(&self, disk: &BlockDisk) {
        disk.memory.fence();
        disk.unlock(self.first, self.old);
        let blocks: Vec<u32> = self.new.iter().filter_map(|entry| entry.block()).map(|block| block as u32).collect();
        disk.free.put_last(&blocks);
    }

    /// Shows a change to readers.
    fn show(&self, disk: &BlockDisk) {
        disk.note_checksums(self.first, self.checksums);
        disk.map.group(self.first, self.new, |block| disk.place(block));
        disk.unlock(self.first, self.new);
    }

    /// Returns true if the medium holds the words of a change (B8). Words that wait for a flush are not compared.
    pub(crate) fn words_arrived(&self, disk: &BlockDisk) -> bool {
        (self.first..).zip(self.words()).all(|(index, word)| {
            let found = disk.map.published_one(disk.pool.memory(), index);
            found == word || (disk.dirty.is_some() && found.entry() != word.entry())
        })
    }

    /// Shows the words of a change that arrived, and restores the others (B8).
    #[cold]
    fn show_arrived(&self, disk: &BlockDisk) -> Error {
        let mut lost = None;
        for (i, word) in self.words().enumerate() {
            let index = self.first + i as u64;
            let found = disk.map.published_one(disk.pool.memory(), index);
            let (shown, other) = if found == word {
                disk.note_checksums(index, &[word.checksum()]);
                (self.new[i], self.old[i])
            } else {
                lost.get_or_insert(index);
                disk.map.publish_one(disk.pool.memory(), index, disk.word_of(index, self.old[i]));
                (self.old[i], self.new[i])
            };
            disk.memory.fence();
            disk.map.unlock(index, shown);
            disk.free.free(other.block());
        }
        Error::Damaged(lost.unwrap_or(self.first) * BLOCK)
    }

    /// Shows a change to readers now and marks its words for the next flush (B5).
    fn defer(&self, disk: &BlockDisk, dirty: &DirtyBlocks) {
        disk.note_checksums(self.first, self.checksums);
        disk.map.group(self.first, self.new, |block| disk.place(block));
        for (i, (old, new)) in self.old.iter().zip(self.new).enumerate() {
            let index = self.first + i as u64;
            let was_dirty = dirty.mark(index);
            disk.map.unlock(index, *new);
            if let (true, Some(block)) = (was_dirty, old.block()) {
                disk.free.free([block]);
            }
        }
    }

    /// Updates the checksums of words that name the same blocks as before. A word that waits for a flush still waits,
    /// because its data may not be durable yet (B5).
    pub(crate) fn renew_words(&self, disk: &BlockDisk) {
        if disk.dirty.is_none() {
            return disk.map.publish(disk.pool.memory(), self.first, self.words());
        }
        for (index, word) in (self.first..).zip(self.words()) {
            if disk.map.published_one(disk.pool.memory(), index).entry() == word.entry() {
                disk.map.publish_one(disk.pool.memory(), index, word);
            }
        }
    }
}
