//! Reads and writes that do more than copy: they keep and compare checksums (B7), read back what was stored (B8), and
//! count where their time goes.

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

/// Bytes on their way to the medium.
pub(crate) struct BlockStore<'batch> {
    /// Where in the pool.
    pub place: u64,
    /// Where on the disk; the start of a block.
    pub at: u64,
    /// Whole blocks.
    pub from: &'batch [u8],
}

impl BlockDisk {
    /// Reads `into` where more is to be done than to copy.
    ///
    /// # Errors
    /// [`Error::DamagedBlock`] with the first byte of the first block that is not what its checksum says;
    /// [`Error::OutOfRange`]. Boxed, so that the result of a read is a word in a register.
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

    /// Reads a whole block and compares it, as lean as a read without; `None` where it takes more than that.
    #[inline]
    fn read_checked_block(&self, at: u64, into: &mut [u8]) -> Option<Result<()>> {
        let is_whole = into.len() as u64 == BLOCK && at.is_multiple_of(BLOCK);
        let checksums = self.checksums.as_ref().filter(|_| is_whole && self.stages().is_none())?;
        let _pin = pin();
        let place = self.place_of(Span::new(at, BLOCK))?;
        let expected = checksums.get(at / BLOCK);
        let found = self.memory.load_summed(place, into);
        Some(self.compare(at / BLOCK, into, (Some(expected), found)))
    }

    /// Reads what lies in one run from `place` on.
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
            // Before the copy, which it would else wait for.
            let expected = self.expected(index);
            let found = self.memory.load_summed(place + done, block);
            self.compare(index, block, (expected, found))?;
            done += BLOCK;
        }
        if tail.is_empty() { Ok(()) } else { self.read_part(place + done, at + done, tail) }
    }

    /// Reads a part of one block, and compares all of it.
    fn read_part(&self, place: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let (within, mut block) = ((at % BLOCK) as usize, [0; BLOCK_BYTES]);
        let expected = self.expected(at / BLOCK);
        let found = self.memory.load_summed(place - within as u64, &mut block);
        self.compare(at / BLOCK, &mut block, (expected, found))?;
        into.copy_from_slice(&block[within..within + into.len()]);
        Ok(())
    }

    /// The checksum that block `index` should have, where the disk keeps them.
    #[inline]
    fn expected(&self, index: u64) -> Option<u32> {
        self.checksums.as_ref().map(|checksums| checksums.get(index))
    }

    /// Compares what was read of block `index` with its checksum: the one expected, and the one found if it is known.
    #[inline]
    fn compare(&self, index: u64, block: &mut [u8], (expected, found): (Option<u32>, Option<u32>)) -> Result<()> {
        if planted!("block: reader compares no checksums") {
            return Ok(());
        }
        let Some(expected) = expected else { return Ok(()) };
        let found = found.unwrap_or_else(|| self.timed(DiskStage::Checksum, || checksum_of(block)));
        if found == expected { Ok(()) } else { self.read_locked(index, block) }
    }

    /// Reads block `index` while nobody changes it: what was read may have met the checksum of something else.
    #[cold]
    fn read_locked(&self, index: u64, into: &mut [u8]) -> Result<()> {
        let entry = self.map.lock(index);
        let read = self.old_content(index, entry).map(|content| into.copy_from_slice(&content));
        self.map.unlock(index, entry);
        read
    }

    /// What block `index`, which is locked and named by `entry`, holds.
    pub(crate) fn old_content(&self, index: u64, entry: MapEntry) -> Result<[u8; BLOCK_BYTES]> {
        let mut content = [0; BLOCK_BYTES];
        let Some(block) = entry.block() else { return Ok(content) };
        self.memory.load(self.place(block), &mut content);
        match &self.checksums {
            Some(checksums) if checksum_of(&content) != checksums.get(index) => Err(Error::Damaged(index * BLOCK)),
            _ => Ok(content),
        }
    }

    /// Stores whole blocks, notes their checksums where the disk keeps them, and reads them back if asked to (B8).
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

    /// Compares what the medium holds with what was stored.
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

    /// Whether an overwrite in place has more to do than to copy.
    pub(crate) fn locks_overwrites(&self) -> bool {
        self.options.in_place && (self.checksums.is_some() || self.options.verify)
    }

    /// Writes over blocks up to the first that is not there, 64 at most; how many bytes. Other writers are kept away,
    /// since the checksum is of the whole block (B7).
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

    /// Writes over blocks and renews their words. One fence for both: B7 asks for no order between them.
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

    /// Refuses a batch for its last block before it stores to those before it, which would then not be what their words
    /// say (B7). The first block is looked at before anything is stored in any case.
    fn ensure_end_is_whole(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let end = batch.at + batch.from.len() as u64;
        match batch.old {
            [_, .., last] if !end.is_multiple_of(BLOCK) => self.old_content(end / BLOCK, *last).map(drop),
            _ => Ok(()),
        }
    }

    /// Writes words that name the same blocks as before with new checksums. One that waits for a flush to be written at
    /// all goes on waiting: what it names may not be durable yet (B5).
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
