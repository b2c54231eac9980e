//! Reads and writes that do more than copy: they compare and store checksums (B7), read back stores (B8), and count the
//! time of each stage.

use ferrite_disk::Disk;
use ferrite_memory::{Error, Result, Span, pin, planted};

use crate::checksum::checksum_of;
use crate::disk::BlockDisk;
use crate::map::MapEntry;
use crate::publish::WordChange;
use crate::shape::BLOCK;
use crate::stages::DiskStage;
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

impl BlockDisk {
    /// Reads `into` if a read does more than copy. The error is boxed, so that the result fits a register.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first byte of the first block whose checksum does not match; [`Error::OutOfRange`].
    #[inline(never)]
    pub(crate) fn read_slow(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Box<Error>> {
        let span = Span::new(at, into.len() as u64);
        self.check(span).and_then(|()| self.read_checked(at, into)).map_err(Box::new)
    }

    fn read_checked(&self, at: u64, into: &mut [u8]) -> Result<()> {
        if let Some(read) = self.read_checked_block(at, into) {
            return read;
        }
        let _whole = self.whole();
        self.read_pieces(at, into)
    }

    fn read_pieces(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let _pin = pin();
        if self.checksums.is_none() {
            self.read_runs(at, into);
            return Ok(());
        }
        let mut done = 0;
        while done < into.len() {
            let from = at + done as u64;
            let rest = Span::new(from, (into.len() - done) as u64);
            let (place, len) = self.timed(DiskStage::Map, || self.piece(rest));
            let part = &mut into[done..done + len as usize];
            match place {
                Some(place) => self.read_run(place, from, part)?,
                None => self.memory.load_hole(part),
            }
            done += len as usize;
        }
        Ok(())
    }

    /// Reads a whole block and compares its checksum. Returns `None` if the request needs more than one lookup and one
    /// copy.
    #[inline]
    fn read_checked_block(&self, at: u64, into: &mut [u8]) -> Option<Result<()>> {
        let is_whole = into.len() as u64 == BLOCK && at.is_multiple_of(BLOCK);
        let checksums = self.checksums.as_ref().filter(|_| is_whole && self.stages().is_none())?;
        let _pin = pin();
        let place = self.place_of(Span::new(at, BLOCK))?;
        let expected = checksums.get(at / BLOCK);
        let found = self.memory.load_summed(place, into);
        Some(self.compare(at / BLOCK, into, Some(expected), found))
    }

    /// Reads a run of blocks from `place` on, and compares the checksum of each.
    fn read_run(&self, place: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let within = (at % BLOCK) as usize;
        let head = if within > 0 { into.len().min(BLOCK_BYTES - within) } else { 0 };
        let (head, rest) = into.split_at_mut(head);
        if !head.is_empty() {
            self.read_part(place, at, head)?;
        }
        let mut done = head.len() as u64;
        let whole = rest.len() / BLOCK_BYTES * BLOCK_BYTES;
        let (blocks, tail) = rest.split_at_mut(whole);
        for block in blocks.chunks_exact_mut(BLOCK_BYTES) {
            let index = (at + done) / BLOCK;
            // Loaded before the copy, because a load after it waits for the copy.
            let expected = self.expected(index);
            let found = self.memory.load_summed(place + done, block);
            self.compare(index, block, expected, found)?;
            done += BLOCK;
        }
        if tail.is_empty() { Ok(()) } else { self.read_part(place + done, at + done, tail) }
    }

    /// Reads a part of one block, and compares the checksum of the whole block.
    fn read_part(&self, place: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let (within, mut block) = ((at % BLOCK) as usize, [0; BLOCK_BYTES]);
        let expected = self.expected(at / BLOCK);
        let found = self.memory.load_summed(place - within as u64, &mut block);
        self.compare(at / BLOCK, &mut block, expected, found)?;
        into.copy_from_slice(&block[within..within + into.len()]);
        Ok(())
    }

    /// Returns the checksum that block `index` should have, or `None` if the disk keeps none.
    #[inline]
    fn expected(&self, index: u64) -> Option<u32> {
        self.checksums.as_ref().map(|checksums| checksums.get(index))
    }

    /// Compares the content of block `index` with its expected checksum. `found` is the checksum that the copy
    /// computed, if any.
    #[inline]
    fn compare(&self, index: u64, block: &mut [u8], expected: Option<u32>, found: Option<u32>) -> Result<()> {
        if planted!("block: reader compares no checksums") {
            return Ok(());
        }
        let Some(expected) = expected else { return Ok(()) };
        let found = found.unwrap_or_else(|| self.timed(DiskStage::Checksum, || checksum_of(block)));
        if found == expected { Ok(()) } else { self.read_locked(index, block) }
    }

    /// Reads block `index` under its lock: without it, a reader can meet new data and an old checksum.
    #[cold]
    fn read_locked(&self, index: u64, into: &mut [u8]) -> Result<()> {
        let entry = self.map.lock(index);
        let read = self.old_content(index, entry).map(|content| into.copy_from_slice(&content));
        self.map.unlock(index, entry);
        read
    }

    /// Returns the content of block `index`, which the caller has locked and whose entry is `entry`.
    pub(crate) fn old_content(&self, index: u64, entry: MapEntry) -> Result<[u8; BLOCK_BYTES]> {
        let mut content = [0; BLOCK_BYTES];
        let Some(block) = entry.block() else { return Ok(content) };
        self.memory.load(self.place(block), &mut content);
        match &self.checksums {
            Some(checksums) if checksum_of(&content) != checksums.get(index) => Err(Error::Damaged(index * BLOCK)),
            _ => Ok(content),
        }
    }

    /// Stores whole blocks, computes their checksums if the disk keeps checksums, and reads them back if asked to (B8).
    #[inline]
    pub(crate) fn store(&self, store: &BlockStore<'_>, checksums: &mut [u32]) -> Result<()> {
        if self.checksums.is_some() {
            self.timed(DiskStage::Checksum, || {
                let blocks = store.from.chunks_exact(BLOCK_BYTES);
                checksums.iter_mut().zip(blocks).for_each(|(checksum, block)| *checksum = checksum_of(block));
            });
        }
        self.memory.store(store.place, store.from, self.options.scheme);
        if self.options.verify { self.read_back(store) } else { Ok(()) }
    }

    /// Compares the medium's content with the data that was stored.
    fn read_back(&self, store: &BlockStore<'_>) -> Result<()> {
        self.memory.fence();
        self.timed(DiskStage::Verify, || {
            let mut found = [0; BLOCK_BYTES];
            for (i, block) in (0..).zip(store.from.chunks_exact(BLOCK_BYTES)) {
                self.pool.memory().load(store.place + i * BLOCK, &mut found);
                if let Some(byte) = found.iter().zip(block).position(|(found, stored)| found != stored) {
                    return Err(Error::Damaged(store.at + i * BLOCK + byte as u64));
                }
            }
            Ok(())
        })
    }

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
        let done = self.overwrite_batch(&WriteBatch { at, from, old, blocks });
        self.unlock(first, old);
        done.map(|()| from.len())
    }

    /// Overwrites blocks and updates their words. One fence is enough for both, because B7 asks for no order between
    /// them.
    fn overwrite_batch(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let (first, mut checksums) = (batch.at / BLOCK, [0; BATCH]);
        let checksums = &mut checksums[..batch.old.len()];
        self.ensure_end_is_whole(batch)?;
        let copied = self.copy(batch, checksums);
        let change = WordChange { first, old: batch.old, new: batch.old, checksums };
        if copied.is_ok() && self.checksums.is_some() {
            self.timed(DiskStage::Map, || self.renew_words(&change));
        }
        self.memory.fence();
        copied?;
        self.note_checksums(first, change.checksums);
        if self.options.verify && !self.words_arrived(&change) {
            return Err(Error::Damaged(first * BLOCK));
        }
        Ok(())
    }

    /// Checks the last block of a batch, if the batch ends inside it, before any block is overwritten. Otherwise an
    /// error at the last block would leave earlier blocks that do not match their words (B7). The first block is
    /// checked by the copy.
    fn ensure_end_is_whole(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let end = batch.at + batch.from.len() as u64;
        match batch.old {
            [_, .., last] if !end.is_multiple_of(BLOCK) => self.old_content(end / BLOCK, *last).map(drop),
            _ => Ok(()),
        }
    }

    /// Updates the checksums of words that name the same blocks as before. A word that waits for a flush still waits,
    /// because its data may not be durable yet (B5).
    fn renew_words(&self, change: &WordChange<'_>) {
        if self.dirty.is_none() {
            return self.map.publish(self.pool.memory(), change.first, change.words());
        }
        for (index, word) in (change.first..).zip(change.words()) {
            if self.map.published_one(self.pool.memory(), index).entry() == word.entry() {
                self.map.publish_one(self.pool.memory(), index, word);
            }
        }
    }
}
