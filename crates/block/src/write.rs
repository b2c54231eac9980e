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

use std::ops::Range;

use ferrite_medium::{Access, Disk, Error, Result, Span, Zeroing};

use crate::dirty::Dirty;
use crate::disk::BlockDisk;
use crate::map::Entry;
use crate::shape::BLOCK;

/// Blocks that are changed together.
const BATCH: usize = 64;

/// What became of the words of one batch.
struct Change<'batch> {
    first: u64,
    old: &'batch [Entry],
    new: &'batch [Entry],
}

impl BlockDisk {
    /// Makes what was changed durable if `access` asks for it.
    #[inline]
    pub(crate) fn finish(&self, access: Access) -> Result<()> {
        match access {
            Access::Fua => self.flush(),
            Access::Cached => Ok(()),
        }
    }

    /// Writes over what lies in one run in the pool; whether it did. Everything else is kept out of its code: a guard's
    /// window waits until the processor has few stores pending, and registers that are saved are stores too.
    #[inline]
    pub(crate) fn overwrite_run(&self, at: u64, from: &[u8]) -> bool {
        if !self.options.in_place {
            return false;
        }
        let _pass = self.gate.pass();
        let Some(place) = self.place_of(Span::new(at, from.len() as u64)) else { return false };
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
            done += self.overwrite_mapped(at + done as u64, &from[done..]);
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
        let _pass = self.gate.pass();
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

    /// Writes a whole block to a free one and then names it: as [`Self::replace`], and as lean as
    /// [`Self::overwrite_run`]; whether it did.
    #[inline]
    pub(crate) fn replace_block(&self, at: u64, from: &[u8]) -> bool {
        let is_whole = from.len() as u64 == BLOCK && at.is_multiple_of(BLOCK);
        if !is_whole || self.dirty.is_some() || self.options.in_place {
            return false;
        }
        let pass = self.gate.pass();
        let Some(block) = self.free.take_one(&pass) else {
            drop(pass);
            self.restock();
            return false;
        };
        let (index, new) = (at / BLOCK, Entry::of(block));
        let old = self.map.lock(index);
        self.memory.store(self.place(block.into()), from, self.options.scheme);
        self.settle_data();
        self.map.publish_one(&*self.memory, index, new);
        self.memory.fence();
        self.map.unlock(index, new);
        if let Some(block) = old.block() {
            self.free.free_one(&pass, block as u32);
        }
        true
    }

    /// Gives this thread free blocks for its next overwrites.
    #[cold]
    fn restock(&self) {
        if let Some(blocks) = self.free.take_stock() {
            self.free.restock(&self.gate.pass(), &blocks);
        }
    }

    /// Writes to free blocks and then names them. Says whether it did: in place, a block that is there by now is not
    /// replaced (B6).
    fn replace(&self, at: u64, from: &[u8]) -> Result<bool> {
        if at / BLOCK == (at + from.len() as u64 - 1) / BLOCK {
            self.replace_up_to::<1>(at, from)
        } else {
            self.replace_up_to::<BATCH>(at, from)
        }
    }

    /// The same for at most `N` blocks (B1 to B4).
    fn replace_up_to<const N: usize>(&self, at: u64, from: &[u8]) -> Result<bool> {
        let first = at / BLOCK;
        let count = ((at + from.len() as u64).div_ceil(BLOCK) - first) as usize;
        let mut blocks = [0; N];
        let blocks = &mut blocks[..count];
        while !self.free.take(blocks) {
            self.find_space(count as u64)?;
        }
        let _pass = self.gate.pass();
        let (mut old, mut new) = ([Entry::ZERO; N], [Entry::ZERO; N]);
        for (i, block) in blocks.iter().enumerate() {
            old[i] = self.map.lock(first + i as u64);
            new[i] = Entry::of(*block);
        }
        if self.options.in_place && old[..count] != [Entry::ZERO; N][..count] {
            self.unlock(first, &old[..count]);
            self.free.put_back(blocks);
            return Ok(false);
        }
        self.copy(at, from, &old[..count], blocks);
        self.commit(&Change { first, old: &old[..count], new: &new[..count] });
        Ok(true)
    }

    /// Copies `from` into `blocks`, completing the first and the last from the old ones where they are written in part.
    fn copy(&self, at: u64, from: &[u8], old: &[Entry], blocks: &[u32]) {
        let mut done = 0;
        let mut i = 0;
        while done < from.len() {
            let within = ((at + done as u64) % BLOCK) as usize;
            let place = self.place(blocks[i].into());
            let left = from.len() - done;
            if within > 0 || left < BLOCK as usize {
                let len = left.min(BLOCK as usize - within);
                let mut whole = [0; BLOCK as usize];
                if let Some(block) = old[i].block() {
                    self.memory.load(self.place(block), &mut whole);
                }
                whole[within..within + len].copy_from_slice(&from[done..done + len]);
                self.memory.store(place, &whole, self.options.scheme);
                (done, i) = (done + len, i + 1);
                continue;
            }
            let together = (1..left / BLOCK as usize)
                .take_while(|n| self.place(blocks[i + n].into()) == place + *n as u64 * BLOCK)
                .count();
            let len = (together + 1) * BLOCK as usize;
            self.memory.store(place, &from[done..done + len], self.options.scheme);
            (done, i) = (done + len, i + together + 1);
        }
    }

    /// Makes `blocks` read as zeros.
    pub(crate) fn unmap(&self, blocks: Range<u64>) {
        let mut first = blocks.start;
        while first < blocks.end {
            let count = (blocks.end - first).min(BATCH as u64) as usize;
            let mut old = [Entry::ZERO; BATCH];
            let _pass = self.gate.pass();
            for (i, entry) in old[..count].iter_mut().enumerate() {
                *entry = self.map.lock(first + i as u64);
            }
            let change = Change { first, old: &old[..count], new: &[Entry::ZERO; BATCH][..count] };
            if change.old == change.new {
                self.unlock(first, change.old);
            } else {
                self.commit(&change);
            }
            first += count as u64;
        }
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

    /// Carries a change through and unlocks the words.
    fn commit(&self, change: &Change<'_>) {
        if let Some(dirty) = &self.dirty {
            self.memory.fence();
            return self.defer(dirty, change);
        }
        self.settle_data();
        self.map.publish(&*self.memory, change.first, change.new);
        self.memory.fence();
        self.map.group(change.first, change.new, |block| self.place(block));
        self.unlock(change.first, change.new);
        self.free.free(change.old.iter().filter_map(|entry| entry.block()));
    }

    /// Shows a change to readers now and leaves its words on the medium to the next flush (B5).
    fn defer(&self, dirty: &Dirty, change: &Change<'_>) {
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

    /// Writes the words that wait and makes everything durable (B5).
    pub(crate) fn publish(&self, dirty: &Dirty) -> Result<()> {
        let _one = self.publishing.lock();
        let mut waiting = Vec::new();
        for index in dirty.marked(self.blocks()) {
            let entry = self.map.lock(index);
            dirty.clear(index);
            self.map.unlock(index, entry);
            waiting.push((index, entry));
        }
        self.settle_deferred_data()?;
        if waiting.is_empty() {
            return Ok(());
        }
        let mut freed = Vec::new();
        for (index, entry) in &waiting {
            let mut before = [Entry::ZERO];
            self.map.published(&*self.memory, *index, &mut before);
            freed.extend(before[0].block().filter(|_| before[0] != *entry));
            self.map.publish(&*self.memory, *index, &[*entry]);
        }
        self.memory.fence();
        self.barrier()?;
        self.free.free(freed);
        Ok(())
    }

    fn unlock(&self, first: u64, entries: &[Entry]) {
        for (i, entry) in entries.iter().enumerate() {
            self.map.unlock(first + i as u64, *entry);
        }
    }

    /// What to do when fewer than `needed` blocks are found: publish, look into stashes, grow, or let other writers
    /// finish.
    fn find_space(&self, needed: u64) -> Result<()> {
        if let Some(dirty) = &self.dirty {
            self.publish(dirty)?;
        }
        self.free.recall();
        if self.is_thin() && self.free.count() < needed {
            return self.grow_thin(needed);
        }
        std::thread::yield_now();
        Ok(())
    }

    /// B1, where a fence is durable.
    fn settle_data(&self) {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::WordBeforeData) {
            return;
        }
        self.memory.fence();
    }

    /// B1, where it is not.
    fn settle_deferred_data(&self) -> Result<()> {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::WordBeforeData) {
            return Ok(());
        }
        self.barrier()
    }

    fn barrier(&self) -> Result<()> {
        self.memory.barrier().inspect_err(|error| self.pool.poison(error))
    }
}
