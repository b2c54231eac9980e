//! Reads that do more than copy: they compare checksums (B7), and count the time of each stage.

use ferrite_disk::Disk;
use ferrite_memory::{Error, Result, Span, pin, planted};

use crate::checksum::checksum_of;
use crate::disk::BlockDisk;
use crate::map::MapEntry;
use crate::shape::BLOCK;
use crate::stages::DiskStage;

const BLOCK_BYTES: usize = BLOCK as usize;

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
        CheckedRead(self).pieces(at, into)
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
        Some(CheckedRead(self).compare(at / BLOCK, into, Some(expected), found))
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
}

/// A read that compares the checksum of each block.
struct CheckedRead<'disk>(&'disk BlockDisk);

impl CheckedRead<'_> {
    fn pieces(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let _pin = pin();
        if self.0.checksums.is_none() {
            self.0.read_runs(at, into);
            return Ok(());
        }
        let mut done = 0;
        while done < into.len() {
            let from = at + done as u64;
            let rest = Span::new(from, (into.len() - done) as u64);
            let (place, len) = self.0.timed(DiskStage::Map, || self.0.piece(rest));
            let part = &mut into[done..done + len as usize];
            match place {
                Some(place) => self.run(place, from, part)?,
                None => self.0.memory.load_hole(part),
            }
            done += len as usize;
        }
        Ok(())
    }

    /// Reads a run of blocks from `place` on, and compares the checksum of each.
    fn run(&self, place: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let within = (at % BLOCK) as usize;
        let head = if within > 0 { into.len().min(BLOCK_BYTES - within) } else { 0 };
        let (head, rest) = into.split_at_mut(head);
        if !head.is_empty() {
            self.part(place, at, head)?;
        }
        let mut done = head.len() as u64;
        let whole = rest.len() / BLOCK_BYTES * BLOCK_BYTES;
        let (blocks, tail) = rest.split_at_mut(whole);
        for block in blocks.chunks_exact_mut(BLOCK_BYTES) {
            let index = (at + done) / BLOCK;
            // Loaded before the copy, because a load after it waits for the copy.
            let expected = self.expected(index);
            let found = self.0.memory.load_summed(place + done, block);
            self.compare(index, block, expected, found)?;
            done += BLOCK;
        }
        if tail.is_empty() { Ok(()) } else { self.part(place + done, at + done, tail) }
    }

    /// Reads a part of one block, and compares the checksum of the whole block.
    fn part(&self, place: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let (within, mut block) = ((at % BLOCK) as usize, [0; BLOCK_BYTES]);
        let expected = self.expected(at / BLOCK);
        let found = self.0.memory.load_summed(place - within as u64, &mut block);
        self.compare(at / BLOCK, &mut block, expected, found)?;
        into.copy_from_slice(&block[within..within + into.len()]);
        Ok(())
    }

    /// Returns the checksum that block `index` should have, or `None` if the disk keeps none.
    #[inline]
    fn expected(&self, index: u64) -> Option<u32> {
        self.0.checksums.as_ref().map(|checksums| checksums.get(index))
    }

    /// Compares the content of block `index` with its expected checksum. `found` is the checksum that the copy
    /// computed, if any.
    #[inline]
    fn compare(&self, index: u64, block: &mut [u8], expected: Option<u32>, found: Option<u32>) -> Result<()> {
        if planted!("block: reader compares no checksums") {
            return Ok(());
        }
        let Some(expected) = expected else { return Ok(()) };
        let found = found.unwrap_or_else(|| self.0.timed(DiskStage::Checksum, || checksum_of(block)));
        if found == expected { Ok(()) } else { self.read_locked(index, block) }
    }

    /// Reads block `index` under its lock: without it, a reader can meet new data and an old checksum.
    #[cold]
    fn read_locked(&self, index: u64, into: &mut [u8]) -> Result<()> {
        let entry = self.0.map.lock(index);
        let read = self.0.old_content(index, entry).map(|content| into.copy_from_slice(&content));
        self.0.map.unlock(index, entry);
        read
    }
}
