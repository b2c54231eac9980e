//! How a disk changes.
//!
//! A request is worked off in batches of up to 64 blocks:
//!
//! ```text
//! take free blocks -> lock the map words -> copy the data -> fence -> write the words on the medium -> fence
//!                  -> show the words to readers and unlock -> free the blocks they named before
//! ```
//!
//! - B1. A block named by a word on the medium holds what was written to it, durable, before the word was.
//! - B2. A block that a word on the medium names is not written to again (but in place), and not free.
//! - B3. A reader finds the old block or the new one, each whole, and never one that is used for something else.
//! - B4. Words of one index change in the same order in DRAM and on the medium.
//! - B5. Where a fence is not durable (a file, `writeback`), words wait in DRAM, marked dirty, until a flush: it makes
//!   the data durable by a barrier, writes the words, makes them durable by another, and only then frees the blocks
//!   that the words on the medium named before. A crash between flushes finds the disk as of the last one, or newer
//!   in whole blocks.
//! - B6. A disk that is served in place never copies a block that is there: writers that hold no lock may be storing to
//!   other sectors of it, and the copy would miss what they had acknowledged.
//! - B7. Where the disk keeps checksums, a word names its block together with the checksum of what the block holds, in
//!   one store. In place the block and its word are changed without an order between them, so a crash leaves a block
//!   that was being changed (where a fence is not durable: one changed since the last flush) old, or new, or *damaged*:
//!   it is not what its word says. A damaged block is an error to who reads it, or writes a part of it, until all of it
//!   is written or trimmed. It is never wrong without anyone being told.
//! - B8. Where what was written is read back (`verify`), a word names a block only after what the medium holds there
//!   was compared with what was written, and a word that did not arrive is not shown to readers.

use std::ops::Range;

use ferrite_disk::{Access, Zeroing};
use ferrite_memory::{Error, Pin, Result, Span, pin};

use crate::checked::BlockStore;
use crate::checksum::checksum_of;
use crate::disk::BlockDisk;
use crate::map::{MapEntry, MapWord};
use crate::options::Shortcut;
use crate::publish::WordChange;
use crate::shape::BLOCK;
use crate::stages::DiskStage;

/// Blocks that are changed together.
pub(crate) const BATCH: usize = 64;

/// Data and the blocks it goes to.
pub(crate) struct WriteBatch<'batch> {
    /// Its place on the disk.
    pub at: u64,
    pub from: &'batch [u8],
    /// What the words name before; locked.
    pub old: &'batch [MapEntry],
    /// Blocks of the data stream, one for each that `from` touches.
    pub blocks: &'batch [u32],
}

/// How writing to free blocks went.
enum Replaced {
    /// They are named.
    All,
    /// In place, a block that is there by now is not replaced (B6).
    IsThere,
    /// So many blocks that have nothing yet are more than can be promised (RM1).
    NoRoom { fresh: u64 },
}

impl BlockDisk {
    /// Makes what was changed durable if `access` asks for it.
    #[inline]
    pub(crate) fn finish(&self, access: Access) -> Result<()> {
        match access {
            Access::Fua => self.flush_map(),
            Access::Cached => Ok(()),
        }
    }

    /// Writes `from` at `at` in whatever way. The error is boxed, as a read's.
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

    /// Writes over what lies in one run in the pool; whether it did. Everything else is kept out of its code: a guard's
    /// window waits until the processor has few stores pending, and registers that are saved are stores too.
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

    /// Writes over the blocks that are there; takes new ones where there are none.
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

    /// Writes over blocks up to the first that is not there; how many bytes. They are fenced before the blocks can
    /// be used for anything else.
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
    /// nothing changed, if that takes more than one lock and one copy.
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

    /// Passes the gate and locks the blocks from `first` on, one for each element of `old`, which become their entries.
    pub(crate) fn pass_and_lock(&self, first: u64, old: &mut [MapEntry]) -> Pin {
        self.timed(DiskStage::Lock, || {
            let pass = self.gate.pass(pin);
            (first..).zip(old).for_each(|(index, entry)| *entry = self.map.lock(index));
            pass
        })
    }

    /// Gives this thread free blocks for its next overwrites.
    #[cold]
    pub(crate) fn restock(&self) {
        if let Some(blocks) = self.free.take_stock() {
            self.free.restock(&self.gate.pass(pin), &blocks);
        }
    }

    /// Fills `blocks` with free blocks.
    pub(crate) fn take_blocks(&self, blocks: &mut [u32]) -> Result<()> {
        while !self.free.take(blocks) {
            self.find_space(blocks.len() as u64)?;
        }
        Ok(())
    }

    /// Writes to free blocks and then names them; whether it did.
    fn replace(&self, at: u64, from: &[u8]) -> Result<bool> {
        if at / BLOCK == (at + from.len() as u64 - 1) / BLOCK {
            self.replace_up_to::<1>(at, from)
        } else {
            self.replace_up_to::<BATCH>(at, from)
        }
    }

    /// The same for at most `N` blocks.
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

    /// Writes to `blocks`, which are free, and names them (B1 to B4), or gives them back.
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
        let copied = self.copy(&WriteBatch { at, from, old, blocks }, &mut checksums);
        let change = WordChange { first, old, new, checksums: &checksums[..count] };
        match copied {
            Ok(()) => self.commit(&change).map(|()| Replaced::All),
            Err(error) => {
                self.abandon(&change);
                self.release(fresh as u64);
                Err(error)
            }
        }
    }

    /// Copies a batch to its blocks, completing the first and the last from the old ones where they are written in
    /// part, and notes the checksum of each block where the disk keeps them.
    pub(crate) fn copy(&self, batch: &WriteBatch<'_>, checksums: &mut [u32]) -> Result<()> {
        let WriteBatch { at, from, old, blocks } = *batch;
        let (mut done, mut i) = (0, 0);
        while done < from.len() {
            let at = at + done as u64;
            let within = (at % BLOCK) as usize;
            let place = self.place(blocks[i].into());
            let left = from.len() - done;
            if within > 0 || left < BLOCK as usize {
                let len = left.min(BLOCK as usize - within);
                let mut whole = self.old_content(at / BLOCK, old[i])?;
                whole[within..within + len].copy_from_slice(&from[done..done + len]);
                self.store(&BlockStore { place, at: at - within as u64, from: &whole }, &mut checksums[i..])?;
                (done, i) = (done + len, i + 1);
                continue;
            }
            let together = (1..left / BLOCK as usize)
                .take_while(|n| self.place(blocks[i + n].into()) == place + *n as u64 * BLOCK)
                .count();
            let len = (together + 1) * BLOCK as usize;
            self.store(&BlockStore { place, at, from: &from[done..done + len] }, &mut checksums[i..])?;
            (done, i) = (done + len, i + together + 1);
        }
        Ok(())
    }

    /// Makes `blocks` read as zeros.
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
                self.commit(&change)?;
                self.release(old[..count].iter().filter(|entry| **entry != MapEntry::ZERO).count() as u64);
            }
            first += count as u64;
        }
        Ok(())
    }

    /// Zeros by writing, so that the space stays.
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
