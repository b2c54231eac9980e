//! Overwrites in place of blocks that have checksums (B7) or are read back (B8).

use ferrite_memory::{Error, Result, pin};

use crate::checksum::checksum_of;
use crate::disk::BlockDisk;
use crate::map::MapEntry;
use crate::shape::BLOCK;
use crate::stages::DiskStage;
use crate::word_change::WordChange;
use crate::write::{BATCH, WriteBatch};

const BLOCK_BYTES: usize = BLOCK as usize;

/// Data of whole blocks, and its place.
pub(crate) struct BlockStore<'batch> {
    /// Offset in the pool, in bytes.
    pub place: u64,
    /// Offset on the disk, in bytes; the start of a block.
    pub at: u64,
    /// The data, a multiple of a block.
    pub from: &'batch [u8],
}

impl BlockStore<'_> {
    /// Stores whole blocks, computes their checksums if the disk keeps checksums, and reads them back if asked to (B8).
    #[inline]
    pub(crate) fn write(&self, disk: &BlockDisk, checksums: &mut [u32]) -> Result<()> {
        if disk.checksums.is_some() {
            disk.timed(DiskStage::Checksum, || {
                let blocks = self.from.chunks_exact(BLOCK_BYTES);
                checksums.iter_mut().zip(blocks).for_each(|(checksum, block)| *checksum = checksum_of(block));
            });
        }
        disk.memory.store(self.place, self.from, disk.options.scheme);
        if disk.options.verify { self.read_back(disk) } else { Ok(()) }
    }

    /// Compares the medium's content with the data that was stored.
    fn read_back(&self, disk: &BlockDisk) -> Result<()> {
        disk.memory.fence();
        disk.timed(DiskStage::Verify, || {
            let mut found = [0; BLOCK_BYTES];
            for (i, block) in (0..).zip(self.from.chunks_exact(BLOCK_BYTES)) {
                disk.pool.memory().load(self.place + i * BLOCK, &mut found);
                if let Some(byte) = found.iter().zip(block).position(|(found, stored)| found != stored) {
                    return Err(Error::Damaged(self.at + i * BLOCK + byte as u64));
                }
            }
            Ok(())
        })
    }
}

impl BlockDisk {
    /// Returns true if an overwrite in place locks its blocks, because it updates checksums or verifies.
    pub(crate) fn locks_overwrites(&self) -> bool {
        self.options.in_place && (self.checksums.is_some() || self.options.verify)
    }

    /// Overwrites at most 64 blocks, up to the first that is not mapped, and returns the number of bytes written. The
    /// blocks are locked, because a checksum covers a whole block (B7).
    pub(crate) fn overwrite_blocks(&self, at: u64, from: &[u8]) -> Result<usize> {
        let _pass = self.timed(DiskStage::Lock, || self.gate.pass(pin));
        let first = at / BLOCK;
        let wanted = ((at + from.len() as u64).div_ceil(BLOCK) - first).min(BATCH as u64);
        let (mut old, mut blocks, mut count) = ([MapEntry::ZERO; BATCH], [0; BATCH], 0);
        for index in first..first + wanted {
            let entry = self.timed(DiskStage::Lock, || self.map.lock(index));
            let Some(block) = entry.block() else {
                self.map.unlock(index, entry);
                break;
            };
            (old[count], blocks[count]) = (entry, block as u32);
            count += 1;
        }
        let from = &from[..from.len().min((count * BLOCK_BYTES).saturating_sub((at % BLOCK) as usize))];
        let (old, blocks) = (&old[..count], &blocks[..count]);
        let done = WriteBatch { at, from, old, blocks }.overwrite(self);
        self.unlock(first, old);
        done.map(|()| from.len())
    }
}

impl WriteBatch<'_> {
    /// Overwrites blocks and updates their words. One fence is enough for both, because B7 asks for no order between
    /// them.
    fn overwrite(&self, disk: &BlockDisk) -> Result<()> {
        let (first, mut checksums) = (self.at / BLOCK, [0; BATCH]);
        let checksums = &mut checksums[..self.old.len()];
        self.ensure_end_is_whole(disk)?;
        let copied = self.copy(disk, checksums);
        let change = WordChange { first, old: self.old, new: self.old, checksums };
        if copied.is_ok() && disk.checksums.is_some() {
            disk.timed(DiskStage::Map, || change.renew_words(disk));
        }
        disk.memory.fence();
        copied?;
        disk.note_checksums(first, change.checksums);
        if disk.options.verify && !change.words_arrived(disk) {
            return Err(Error::Damaged(first * BLOCK));
        }
        Ok(())
    }

    /// Checks the last block of a batch, if the batch ends inside it, before any block is overwritten. Otherwise an
    /// error at the last block would leave earlier blocks that do not match their words (B7). The first block is
    /// checked by the copy.
    fn ensure_end_is_whole(&self, disk: &BlockDisk) -> Result<()> {
        let end = self.at + self.from.len() as u64;
        match self.old {
            [_, .., last] if !end.is_multiple_of(BLOCK) => disk.old_content(end / BLOCK, *last).map(drop),
            _ => Ok(()),
        }
    }
}
