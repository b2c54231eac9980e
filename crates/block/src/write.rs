//! Writing to a disk.
//!
//! A request is processed in batches of up to 64 blocks:
//!
//! ```text
//! take free blocks -> lock the map words -> copy the data -> fence -> write the words on the medium -> fence
//!                  -> show the words to readers and unlock -> free the blocks that the words named before
//! ```
//!
//! - B1. A block that a word on the medium names holds its data, durable, before the word is written.
//! - B2. A block that a word on the medium names is not free, and no write stores to it (except in place).
//! - B3. A reader finds the old block or the new one, each whole, and never a block in use for something else.
//! - B4. Words of one index change in the same order in DRAM and on the medium.
//! - B5. If a fence is not durable (a file, `writeback`), words wait in DRAM, marked dirty, until a flush. The flush
//!   makes the data durable by a barrier, writes the words, makes them durable by a second barrier, and only then frees
//!   the blocks that the words on the medium named before. A crash between flushes finds the disk as of the last one,
//!   or newer in whole blocks.
//! - B6. A disk that is served in place never copies a mapped block: writers without a lock may be storing to other
//!   sectors of it, and the copy would miss acknowledged data.
//! - B7. If the disk keeps checksums, one store of a word names the block and the checksum of its content. In place,
//!   the block and its word change without an order between them. A crash then leaves a block that was being changed
//!   old, new, or *damaged*, which means that its checksum does not match. (If a fence is not durable, that holds for
//!   each block changed since the last flush.) Reading a damaged block, or writing a part of it, is an error until all
//!   of it is written or trimmed. Damage is always reported.
//! - B8. If writes are read back (`verify`), a word names a block only after the medium's content was compared with the
//!   data. A word that did not arrive is not shown to readers.

use std::ops::Range;

use ferrite_disk::{Access, Zeroing};
use ferrite_memory::{Error, Pin, Result, Span, pin};

use crate::checksum::checksum_of;
use crate::disk::BlockDisk;
use crate::map::{MapEntry, MapWord};
use crate::options::Shortcut;
use crate::overwrite::BlockStore;
use crate::room::KEPT;
use crate::shape::BLOCK;
use crate::stages::DiskStage;
use crate::word_change::WordChange;

/// The largest number of blocks in a batch.
pub(crate) const BATCH: usize = 64;

const _: () = assert!(KEPT >= 2 * BATCH as u64, "loans leave enough for a batch");

/// Data, and the blocks of the data stream that receive it.
pub(crate) struct WriteBatch<'batch> {
    /// Offset of the data on the disk, in bytes.
    pub at: u64,
    pub from: &'batch [u8],
    /// The entries of the words before the write. The caller holds their locks.
    pub old: &'batch [MapEntry],
    /// Blocks of the data stream, one for each block of the disk that `from` touches.
    pub blocks: &'batch [u32],
}

/// The outcome of writing to free blocks.
enum Replaced {
    /// The words name the new blocks.
    All,
    /// The disk is served in place and another writer has mapped one of the blocks: nothing was replaced (B6).
    IsThere,
    /// A thin disk cannot promise `fresh` blocks to words that name none (RM1).
    NoRoom { fresh: u64 },
}

impl BlockDisk {
    /// Makes everything that completed durable if `access` is [`Access::Fua`].
    #[inline]
    pub(crate) fn finish(&self, access: Access) -> Result<()> {
        match access {
            Access::Fua => self.flush_map(),
            Access::Cached => Ok(()),
        }
    }

    /// Writes `from` at `at`, to free blocks unless the disk is served in place. The error is boxed, so that the result
    /// fits a register.
    #[inline(never)]
    pub(crate) fn write_cow(&self, at: u64, from: &[u8], access: Access) -> std::result::Result<(), Box<Error>> {
        let written = self.check_change(Span::new(at, from.len() as u64)).and_then(|()| {
            if self.overwrite_run(at, from) || self.write_block(at, from) {
                return self.finish(access);
            }
            let _whole = self.whole();
            self.write_blocks(at, from)?;
            self.finish(access)
        });
        written.map_err(Box::new)
    }

    /// Overwrites a span that lies in one run in the pool. Returns false if it does not. Other code is kept out of this
    /// function: a guard's window waits until few stores are pending, and saved registers are stores too.
    #[inline]
    pub(crate) fn overwrite_run(&self, at: u64, from: &[u8]) -> bool {
        if self.shortcut != Shortcut::Run {
            return false;
        }
        let _pass = self.gate.pass(pin);
        let Some(place) = self.place_of(Span::new(at, from.len() as u64)) else { return false };
        self.memory.expect_store(place);
        self.memory.store(place, from, self.options.scheme);
        self.memory.fence();
        true
    }

    /// Writes `from`, which lies within the disk, at `at`.
    #[inline(never)]
    pub(crate) fn write_blocks(&self, at: u64, from: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            let at = at + done as u64;
            let room = BATCH * BLOCK as usize - (at % BLOCK) as usize;
            let part = &from[done..from.len().min(done + room)];
            if self.options.in_place {
                self.overwrite(at, part)?;
            } else {
                self.replace(at, part)?;
            }
            done += part.len();
        }
        Ok(())
    }

    /// Overwrites mapped blocks, and maps new blocks for the others.
    fn overwrite(&self, at: u64, from: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            done += match self.locks_overwrites() {
                true => self.overwrite_blocks(at + done as u64, &from[done..])?,
                false => self.overwrite_mapped(at + done as u64, &from[done..]),
            };
            if done < from.len() {
                let at = at + done as u64;
                let (_, missing) = self.run(Span::new(at, (from.len() - done) as u64));
                if self.replace(at, &from[done..done + missing as usize])? {
                    done += missing as usize;
                }
            }
        }
        Ok(())
    }

    /// Overwrites blocks up to the first that is not mapped, and returns the number of bytes written. The stores are
    /// fenced before the blocks can be freed.
    fn overwrite_mapped(&self, at: u64, from: &[u8]) -> usize {
        let _pass = self.timed(DiskStage::Lock, || self.gate.pass(pin));
        let mut done = 0;
        while done < from.len() {
            let (place, len) = self.piece(Span::new(at + done as u64, (from.len() - done) as u64));
            let Some(place) = place else { break };
            let part = &from[done..done + len as usize];
            self.memory.store(place, part, self.options.scheme);
            done += part.len();
        }
        self.memory.fence();
        done
    }

    /// Writes one whole block: to a free block, or over the old one if the disk is served in place. Returns false, with
    /// nothing changed, if the request needs more than one lock and one copy.
    #[inline]
    fn write_block(&self, at: u64, from: &[u8]) -> bool {
        let is_whole = from.len() as u64 == BLOCK && at.is_multiple_of(BLOCK);
        is_whole
            && self.shortcut == Shortcut::Block
            && match (self.options.in_place, &self.checksums) {
                (false, None) => self.write_block_by::<false, false>(at / BLOCK, from),
                (false, Some(_)) => self.write_block_by::<false, true>(at / BLOCK, from),
                (true, _) => self.write_block_by::<true, true>(at / BLOCK, from),
            }
    }

    #[inline]
    fn write_block_by<const IN_PLACE: bool, const CHECKSUM: bool>(&self, index: u64, from: &[u8]) -> bool {
        let checksum = if CHECKSUM { checksum_of(from) } else { 0 };
        let pass = self.gate.pass(pin);
        let free = if IN_PLACE { None } else { self.free.take_one(&pass) };
        if !IN_PLACE && free.is_none() {
            drop(pass);
            self.restock();
            return false;
        }
        free.inspect(|block| self.memory.expect_store(self.place((*block).into())));
        let old = self.map.lock(index);
        if old == MapEntry::ZERO && (IN_PLACE || !self.promise(1)) {
            self.map.unlock(index, old);
            free.inspect(|block| self.free.restock(&pass, &[*block]));
            return false;
        }
        let new = free.map_or(old, MapEntry::of);
        self.memory.store(self.place(new.block().expect("a block")), from, self.options.scheme);
        if !IN_PLACE {
            self.fence_data();
        }
        self.map.publish_one(&*self.memory, index, MapWord::of(new, checksum));
        self.memory.fence();
        if let Some(checksums) = self.checksums.as_ref().filter(|_| CHECKSUM) {
            checksums.set(index, checksum);
        }
        self.map.unlock(index, new);
        if let Some(block) = old.block().filter(|_| !IN_PLACE) {
            self.free.free_one(&pass, block as u32);
        }
        true
    }

    /// Passes the gate and locks the words from `first` on. Each element of `old` becomes the entry of one word.
    pub(crate) fn pass_and_lock(&self, first: u64, old: &mut [MapEntry]) -> Pin {
        self.timed(DiskStage::Lock, || {
            let pass = self.gate.pass(pin);
            (first..).zip(old).for_each(|(index, entry)| *entry = self.map.lock(index));
            pass
        })
    }

    /// Fills the stash of this thread with free blocks for its next writes.
    #[cold]
    pub(crate) fn restock(&self) {
        if let Some(blocks) = self.free.take_stock() {
            self.free.restock(&self.gate.pass(pin), &blocks);
        }
    }

    /// Fills `blocks` with free blocks, and waits for them if there are too few.
    pub(crate) fn take_blocks(&self, blocks: &mut [u32]) -> Result<()> {
        while !self.free.take(blocks) {
            self.find_space(blocks.len() as u64)?;
        }
        Ok(())
    }

    /// Writes `from` to free blocks and names them. Returns false if the disk is served in place and a block is mapped
    /// by now.
    fn replace(&self, at: u64, from: &[u8]) -> Result<bool> {
        if at / BLOCK == (at + from.len() as u64 - 1) / BLOCK {
            self.replace_up_to::<1>(at, from)
        } else {
            self.replace_up_to::<BATCH>(at, from)
        }
    }

    /// Implements `replace` for at most `N` blocks.
    fn replace_up_to<const N: usize>(&self, at: u64, from: &[u8]) -> Result<bool> {
        let count = ((at + from.len() as u64).div_ceil(BLOCK) - at / BLOCK) as usize;
        let mut blocks = [0; N];
        let blocks = &mut blocks[..count];
        loop {
            self.timed(DiskStage::FindSpace, || self.take_blocks(blocks))?;
            match self.replace_by::<N>(blocks, at, from)? {
                Replaced::All => return Ok(true),
                Replaced::IsThere => return Ok(false),
                Replaced::NoRoom { fresh } => self.grow_thin(fresh)?,
            }
        }
    }

    /// Writes to the free blocks `blocks` and names them (B1 to B4). Puts the blocks back if it does not name them.
    fn replace_by<const N: usize>(&self, blocks: &[u32], at: u64, from: &[u8]) -> Result<Replaced> {
        let (first, count) = (at / BLOCK, blocks.len());
        let (mut old, mut new, mut checksums) = ([MapEntry::ZERO; N], [MapEntry::ZERO; N], [0; N]);
        let _pass = self.pass_and_lock(first, &mut old[..count]);
        new.iter_mut().zip(blocks).for_each(|(new, block)| *new = MapEntry::of(*block));
        let (old, new) = (&old[..count], &new[..count]);
        let fresh = old.iter().filter(|entry| **entry == MapEntry::ZERO).count();
        let is_there = self.options.in_place && fresh < count;
        if is_there || !self.promise(fresh as u64) {
            self.unlock(first, old);
            self.free.put_back(blocks);
            return Ok(if is_there { Replaced::IsThere } else { Replaced::NoRoom { fresh: fresh as u64 } });
        }
        let copied = WriteBatch { at, from, old, blocks }.copy(self, &mut checksums);
        let change = WordChange { first, old, new, checksums: &checksums[..count] };
        match copied {
            Ok(()) => change.commit(self).map(|()| Replaced::All),
            Err(error) => {
                change.abandon(self);
                self.release(fresh as u64);
                Err(error)
            }
        }
    }

    /// Unmaps `blocks`, which read as zeros afterwards.
    pub(crate) fn unmap(&self, blocks: Range<u64>) -> Result<()> {
        let mut first = blocks.start;
        while first < blocks.end {
            let count = (blocks.end - first).min(BATCH as u64) as usize;
            let mut old = [MapEntry::ZERO; BATCH];
            let _pass = self.pass_and_lock(first, &mut old[..count]);
            let (new, checksums) = ([MapEntry::ZERO; BATCH], [0; BATCH]);
            let change = WordChange { first, old: &old[..count], new: &new[..count], checksums: &checksums[..count] };
            if change.old == change.new {
                self.unlock(first, change.old);
            } else {
                change.commit(self)?;
                self.release(old[..count].iter().filter(|entry| **entry != MapEntry::ZERO).count() as u64);
            }
            first += count as u64;
        }
        Ok(())
    }

    /// Writes zeros, so that the disk keeps its space.
    pub(crate) fn zero_by_writing(&self, span: Span, how: Zeroing) -> Result<()> {
        static ZEROS: [u8; BATCH * BLOCK as usize] = [0; BATCH * BLOCK as usize];
        if how.fast {
            return Err(Error::Unsupported("fast zeroes that keep their space".into()));
        }
        let (mut at, mut left) = (span.at, span.len);
        while left > 0 {
            let step = left.min(ZEROS.len() as u64);
            self.write_blocks(at, &ZEROS[..step as usize])?;
            (at, left) = (at + step, left - step);
        }
        self.finish(how.access)
    }
}

impl WriteBatch<'_> {
    /// Copies a batch to its blocks. The first and last block are completed from the old ones if the batch covers a
    /// part of them. Stores the checksum of each block in `checksums` if the disk keeps checksums.
    pub(crate) fn copy(&self, disk: &BlockDisk, checksums: &mut [u32]) -> Result<()> {
        let WriteBatch { at, from, old, blocks } = *self;
        let (mut done, mut i) = (0, 0);
        while done < from.len() {
            let at = at + done as u64;
            let within = (at % BLOCK) as usize;
            let place = disk.place(blocks[i].into());
            let left = from.len() - done;
            if within > 0 || left < BLOCK as usize {
                let len = left.min(BLOCK as usize - within);
                let mut whole = disk.old_content(at / BLOCK, old[i])?;
                whole[within..within + len].copy_from_slice(&from[done..done + len]);
                BlockStore { place, at: at - within as u64, from: &whole }.write(disk, &mut checksums[i..])?;
                (done, i) = (done + len, i + 1);
                continue;
            }
            let together = (1..left / BLOCK as usize)
                .take_while(|n| disk.place(blocks[i + n].into()) == place + *n as u64 * BLOCK)
                .count();
            let len = (together + 1) * BLOCK as usize;
            BlockStore { place, at, from: &from[done..done + len] }.write(disk, &mut checksums[i..])?;
            (done, i) = (done + len, i + together + 1);
        }
        Ok(())
    }
}
