//! The tree of a kept image in DRAM, and the blocks that it leaves free.

use std::ops::Range;

use ferrite_disk::{Access, Disk};
use ferrite_memory::Result as MediumResult;
use zerocopy::{FromZeros, IntoBytes};

use super::image_format::bad;
use super::kept_format::{
    BLOCK, BlockBytes, BlockEntry, FANOUT, HEADER_BLOCKS, KeptHeader, SumKey, capacity_bytes, level_lengths,
};
use crate::layout::PAGE;
use crate::{Error, Result};

/// Blocks that are read at once.
const READ_BLOCKS: u64 = (2 << 20) / PAGE;
/// The distance of blocks that are still read at once: to read 64 KiB more takes less time than a second request.
const GAP_BLOCKS: u64 = 16;
/// Blocks that are written at once.
const RUN_BLOCKS: usize = (512 << 10) / BLOCK;

/// The entries of an image, by level: those of pages first, the root last.
pub(super) struct BlockTree {
    pub levels: Vec<Vec<BlockEntry>>,
}

impl BlockTree {
    /// Reads and verifies the tree of `header`, without its pages.
    ///
    /// # Errors
    /// [`Error::BadImage`] if a node is damaged, [`Error::Medium`] if the disk fails.
    pub fn load(disk: &dyn Disk, header: &KeptHeader) -> Result<Self> {
        if capacity_bytes(header.size) > disk.geometry().size {
            return Err(bad("its end, which is missing,", disk.geometry().size));
        }
        let mut levels: Vec<_> =
            level_lengths(header.size).into_iter().map(|len| vec![BlockEntry::default(); len]).collect();
        *levels.last_mut().and_then(|root| root.first_mut()).expect("a tree has a root") = header.root;
        let mut buffer = ReadBuffer::default();
        for level in (1..levels.len()).rev() {
            let (below, nodes) = levels.split_at_mut(level);
            let (below, nodes) = (&mut below[level - 1], &nodes[0]);
            let mut beyond = None;
            read_entries(disk, header.key(), nodes, &mut buffer, |node, block| {
                let mut entries = [BlockEntry::new_zeroed(); FANOUT];
                entries.as_mut_bytes().copy_from_slice(block);
                let children = children(node, below.len());
                let (inside, outside) = entries.split_at(children.len());
                if outside.iter().any(|entry| *entry != BlockEntry::default()) {
                    beyond = Some(nodes[node].block.get() * PAGE);
                }
                below[children].copy_from_slice(inside);
            })?;
            if let Some(at) = beyond {
                return Err(bad("a node, which names a page beyond the pool,", at));
            }
        }
        Ok(Self { levels })
    }

    /// Returns the root.
    pub fn root(&self) -> BlockEntry {
        self.levels.last().and_then(|root| root.first()).copied().unwrap_or_default()
    }

    /// Returns the bytes of node `node` of `level`, or `None` if all its entries stand for zeros.
    pub fn node(&self, level: usize, node: usize) -> Option<BlockBytes> {
        let entries = &self.levels[level - 1][children(node, self.levels[level - 1].len())];
        let mut bytes = [0; BLOCK];
        bytes[..size_of_val(entries)].copy_from_slice(entries.as_bytes());
        entries.iter().any(|entry| !entry.is_zeros()).then_some(bytes)
    }

    /// Makes the tree that of a pool of `size` bytes, which is not smaller than before. Returns true if that moved nodes
    /// to another level, so that all of them are new.
    pub fn grow(&mut self, size: u64) -> bool {
        let lengths = level_lengths(size);
        let moved = lengths.len() != self.levels.len();
        if moved {
            self.levels.truncate(1);
        }
        self.levels.resize(lengths.len(), Vec::new());
        for (level, len) in self.levels.iter_mut().zip(lengths) {
            level.resize(len, BlockEntry::default());
        }
        moved
    }
}

/// Returns the entries below node `node`, of `len` entries in that level.
fn children(node: usize, len: usize) -> Range<usize> {
    node * FANOUT..len.min((node + 1) * FANOUT)
}

/// A buffer for blocks that are read at once, which several reads share.
pub(super) struct ReadBuffer(Vec<u8>);

impl Default for ReadBuffer {
    fn default() -> Self {
        Self(vec![0; READ_BLOCKS as usize * BLOCK + BLOCK])
    }
}

impl ReadBuffer {
    /// Returns room for `count` blocks. Direct I/O needs no copy into an aligned buffer.
    fn room(&mut self, count: usize) -> &mut [u8] {
        let aligned = self.0.as_ptr().align_offset(BLOCK).min(BLOCK);
        &mut self.0[aligned..][..count * BLOCK]
    }
}

/// Reads and verifies the blocks of those `entries` that do not stand for zeros. Passes each to `visit` with the index of
/// its entry. Blocks that lie near each other are read at once, in the order of the image.
///
/// # Errors
/// As [`read_blocks`], and [`Error::BadImage`] if a block is damaged. The blocks before it were visited.
pub(super) fn read_entries(
    disk: &dyn Disk,
    key: SumKey,
    entries: &[BlockEntry],
    buffer: &mut ReadBuffer,
    mut visit: impl FnMut(usize, &BlockBytes),
) -> Result<()> {
    let mut order: Vec<usize> = (0..entries.len()).filter(|index| !entries[*index].is_zeros()).collect();
    let block = |index: usize| entries[index].block.get();
    order.sort_by_key(|index| block(*index));
    for near in order.chunk_by(|one, next| block(*next) - block(*one) <= GAP_BLOCKS) {
        let mut rest = near;
        while let Some(first) = rest.first().map(|index| block(*index)) {
            let (run, after) = rest.split_at(rest.partition_point(|index| block(*index) - first < READ_BLOCKS));
            let count = run.last().map_or(0, |index| block(*index) - first + 1) as usize;
            let read = buffer.room(count);
            let joined = read_blocks(disk, first, read);
            for index in run {
                let bytes = &mut read.as_chunks_mut::<BLOCK>().0[(block(*index) - first) as usize];
                if joined.is_err() {
                    // A block between them that no entry names may be unreadable.
                    read_blocks(disk, block(*index), bytes)?;
                }
                verify_block(key, entries[*index], bytes)?;
                visit(*index, bytes);
            }
            rest = after;
        }
    }
    Ok(())
}

/// Reads the blocks from `block` on.
///
/// # Errors
/// [`Error::BadImage`] if they lie in the headers or beyond the image, [`Error::Medium`] if the disk fails.
pub(super) fn read_blocks(disk: &dyn Disk, block: u64, into: &mut [u8]) -> Result<()> {
    let blocks = disk.geometry().size / PAGE;
    let count = (into.len() / BLOCK) as u64;
    if block < HEADER_BLOCKS || block.checked_add(count).is_none_or(|end| end > blocks) {
        return Err(bad("an entry, which names no block of the image,", 0));
    }
    Ok(disk.read(block * PAGE, into)?)
}

/// Refuses `bytes` if they are not the block of `entry` (KF1).
pub(super) fn verify_block(key: SumKey, entry: BlockEntry, bytes: &BlockBytes) -> Result<()> {
    if key.sum(bytes) == entry.sum.get() { Ok(()) } else { Err(bad("a block", entry.block.get() * PAGE)) }
}

/// The blocks that no entry of the durable save names, lowest first.
pub(super) struct FreeBlocks {
    /// A bit for each block of the image, set if the block is in use.
    used: Vec<u64>,
    next: usize,
}

impl FreeBlocks {
    /// Returns the blocks of an image of `bytes` bytes that `tree` does not name.
    ///
    /// # Errors
    /// [`Error::BadImage`] if two entries name one block, or one names no block.
    pub fn of(tree: &BlockTree, bytes: u64) -> Result<Self> {
        let blocks = (bytes / PAGE) as usize;
        let mut free = Self { used: vec![0; blocks.div_ceil(64)], next: 0 };
        (0..HEADER_BLOCKS).chain(blocks as u64..(free.used.len() * 64) as u64).for_each(|block| free.mark(block));
        for entry in tree.levels.iter().flatten().filter(|entry| !entry.is_zeros()) {
            let block = entry.block.get();
            if block >= blocks as u64 || free.is_used(block) {
                return Err(bad("an entry, which names a block of another one,", block.saturating_mul(PAGE)));
            }
            free.mark(block);
        }
        Ok(free)
    }

    fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    fn mark(&mut self, block: u64) {
        self.used[(block / 64) as usize] |= 1 << (block % 64);
    }

    /// Frees `block`.
    pub fn free(&mut self, block: u64) {
        self.used[(block / 64) as usize] &= !(1 << (block % 64));
        self.next = self.next.min((block / 64) as usize);
    }

    /// Allocates the lowest free block.
    ///
    /// # Errors
    /// [`Error::Limit`] if there is none; an image has room for two trees, so that does not happen.
    pub fn allocate(&mut self) -> Result<u64> {
        while let Some(word) = self.used.get(self.next) {
            if *word != u64::MAX {
                let block = self.next as u64 * 64 + u64::from(word.trailing_ones());
                self.mark(block);
                return Ok(block);
            }
            self.next += 1;
        }
        Err(Error::Limit("the kept image has no free block: remove the file, and save to a new one".into()))
    }
}

/// A writer that joins neighbouring blocks.
pub(super) struct BlockWriter<'disk> {
    disk: &'disk dyn Disk,
    start: u64,
    run: Vec<u8>,
    /// The number of blocks so far.
    pub blocks: u64,
}

impl<'disk> BlockWriter<'disk> {
    /// Returns a writer to `disk`.
    pub fn new(disk: &'disk dyn Disk) -> Self {
        Self { disk, start: 0, run: Vec::with_capacity(RUN_BLOCKS * BLOCK), blocks: 0 }
    }

    /// Writes `bytes` to `block`, at the latest by [`BlockWriter::finish`].
    pub fn write(&mut self, block: u64, bytes: &BlockBytes) -> MediumResult<()> {
        let next = self.start + (self.run.len() / BLOCK) as u64;
        if block != next || self.run.len() == RUN_BLOCKS * BLOCK {
            self.finish()?;
            self.start = block;
        }
        self.run.extend_from_slice(bytes);
        self.blocks += 1;
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(&mut self) -> MediumResult<()> {
        if !self.run.is_empty() {
            self.disk.write(self.start * PAGE, &self.run, Access::Cached)?;
            self.run.clear();
        }
        Ok(())
    }
}
