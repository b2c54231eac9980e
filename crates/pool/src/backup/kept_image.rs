//! A kept image: an image that later saves of the same pool bring up to date.
//!
//! A save writes the pages that changed since the last one to free blocks, then the nodes above them, then the header.
//!
//! ```text
//!   frozen                        thawed
//!   stamp, used pages, snapshot   page, sum, equal? else -> free block    nodes -> free blocks   flush   header   flush
//!   |------------ one moment -----|-------------------------------------------------------------------|--------|------|
//!   newest whole save: n                                                                                      n or n+1  n+1
//! ```
//!
//! - KI1. A save is one moment: the pool is frozen when it begins, as for a backup (BK1), and until each page is copied
//!   or a [`SnapshotMemory`] keeps what the page held. If clients may store through a grant, each page is summed again at
//!   the end, and the save fails if one changed. It fails too if a process was given a part of the pool meanwhile.
//! - KI2. Until the header of save n + 1 is durable, no block that save n names is written. So a crash leaves save n or
//!   save n + 1, whole.
//! - KI3. The header is written when everything that it names is durable. It goes to the block of save n - 1.
//! - KI4. A process writes the newest header again and flushes, before it writes a block. Otherwise a power failure could
//!   bring back the save before: a killed process, or a flush that failed, may have left the header visible only.
//! - KI5. A page is left out of a save only if its sum is the one of the last save (KF2), if it holds zeros, or if the last
//!   save has it and no thread has stored to it since that moment (SN4). Marks of stores count only if the last save was
//!   made through the same snapshot; else each page in use is summed.
//! - KI6. A save goes only to an image of the same pool that is not later than the pool (BK7), and only from an open
//!   pool. So nothing is saved over an image that is being restored: its pool cannot be opened until it is whole (BK3),
//!   and has no name until then.
//! - KI7. After a save has failed, the next one reads the image again. A file that failed to flush refuses all saves until
//!   a process opens it again.

use std::sync::Arc;

use ferrite_disk::{Access, Disk};
use ferrite_memory::{Memory, SnapshotInstant, SnapshotMemory, planted};

use super::image_format::GENERATION_MAX;
use super::image_tie::{ensure_stamp_known, next_stamp};
use super::kept_format::{BLOCK, BlockBytes, BlockEntry, HEADER_BLOCKS, KeptHeader, capacity_bytes};
use super::kept_tree::{BlockTree, BlockWriter, FreeBlocks};
use super::{lane_pages, progress, used_chunks};
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE};
use crate::tie::Generation;
use crate::{Error, Frozen, Pool, Progress, Result};

/// The pool's memory with snapshots.
pub type PoolSnapshot = SnapshotMemory<Arc<dyn Memory>>;

/// An image that is open for saves.
pub struct KeptImage {
    /// `None` after a failed [`KeptImage::reopen`].
    disk: Option<Box<dyn Disk>>,
    last: Option<LastSave>,
}

/// The save that is durable, and the blocks that it leaves free.
struct LastSave {
    header: KeptHeader,
    tree: BlockTree,
    free: FreeBlocks,
    /// The instant of the snapshot that this save was made through; `None` if another process may have made it.
    instant: Option<SnapshotInstant>,
}

/// What a save depends on beside the pool.
pub struct SaveOptions<'a> {
    /// Random bits, for the generation of the tie.
    pub nonce: u16,
    /// The time of the save, in seconds since 1970.
    pub time_s: u64,
    /// True to save although clients may store through a grant, because the pool ends or the power fails. The save fails
    /// if one of them stored during the save (KI1).
    pub beside_clients: bool,
    /// The memory on which the pool was opened. Without it the pool is frozen for the whole save.
    pub snapshot: Option<&'a PoolSnapshot>,
}

/// The newest save of a kept image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSave {
    /// The UUID of the pool.
    pub pool: [u8; 16],
    /// The size of the pool in bytes.
    pub pool_bytes: u64,
    /// The generation of the image in the tie to its pool; `None` before the first save.
    pub generation: Option<Generation>,
    /// The time of the save, in seconds since 1970.
    pub time_s: u64,
}

/// What a save did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveReport {
    /// The save.
    pub save: KeptSave,
    /// Bytes of pages that changed since the last save.
    pub changed_bytes: u64,
    /// Bytes written to the image.
    pub written_bytes: u64,
}

impl KeptHeader {
    pub(super) fn save(&self) -> KeptSave {
        let generation = self.stamp.map(|stamp| stamp.generation);
        KeptSave { pool: self.pool, pool_bytes: self.size, generation, time_s: self.time_s }
    }

    /// Refuses if the image is of another pool, or later than `pool` knows (KI6). The message calls it `name`.
    fn ensure_of(&self, pool: &Pool, name: &str) -> Result<()> {
        let ways_out =
            "name another image, or remove the pool if what is in it is not wanted: the next start restores this image";
        ensure_stamp_known(pool, self.pool, self.stamp.as_ref(), name, ways_out)
    }

    /// Returns the newest header of `disk`.
    ///
    /// # Errors
    /// [`Error::BadImage`] if there is none, [`Error::Medium`] if the disk fails.
    pub(super) fn newest(disk: &dyn Disk) -> Result<Self> {
        let mut found = Vec::new();
        for slot in 0..HEADER_BLOCKS {
            let mut bytes = [0; BLOCK];
            if (slot + 1) * PAGE <= disk.geometry().size {
                disk.read(slot * PAGE, &mut bytes)?;
            }
            found.push(Self::decode(slot, &bytes));
        }
        let newest = found.iter().flatten().max_by_key(|header| header.save).copied();
        newest.map_or_else(|| found.swap_remove(0), Ok)
    }
}

impl KeptImage {
    /// Returns the first bytes of a new image of `pool`, which holds no save. `image` is the image's UUID, which the
    /// caller draws at random. Behind them the image has zeros, up to the returned length.
    pub fn blank(pool: &Pool, image: [u8; 16]) -> (Vec<u8>, u64) {
        let superblock = pool.superblock();
        let header = KeptHeader {
            image,
            pool: superblock.uuid,
            size: superblock.size,
            save: 0,
            generation: 0,
            stamp: None,
            root: BlockEntry::default(),
            time_s: 0,
        };
        (header.encode().to_vec(), capacity_bytes(superblock.size))
    }

    /// Opens the image on `disk`, which nothing else writes.
    ///
    /// # Errors
    /// [`Error::BadImage`] if it is damaged, [`Error::Medium`] if the disk fails.
    pub fn open(disk: Box<dyn Disk>) -> Result<Self> {
        let last = LastSave::load(&*disk)?;
        Ok(Self { disk: Some(disk), last: Some(last) })
    }

    /// Returns the newest save, or `None` before the first one and after a failed one.
    pub fn last(&self) -> Option<KeptSave> {
        self.last.as_ref().map(|last| last.header.save()).filter(|save| save.generation.is_some())
    }

    /// Refuses as [`KeptHeader::ensure_of`] does.
    pub(super) fn ensure_of(&self, pool: &Pool, name: &str) -> Result<()> {
        let header = self.last.as_ref().map(|last| last.header);
        header.map_or(Ok(()), |header| header.ensure_of(pool, name))
    }

    /// Returns true if the image has room for saves of `pool`, which may have grown.
    pub fn has_room(&self, pool: &Pool) -> bool {
        capacity_bytes(pool.superblock().size) <= self.disk.as_ref().map_or(0, |disk| disk.geometry().size)
    }

    /// Opens the disk again, which has grown. The old one is closed first, because it holds a lock.
    pub(super) fn reopen(&mut self, open: impl FnOnce() -> Result<Box<dyn Disk>>) -> Result<()> {
        (self.disk, self.last) = (None, None);
        *self = Self::open(open()?)?;
        Ok(())
    }

    /// Saves `pool`, durably. `watch` is called first when the pool is no longer frozen.
    ///
    /// # Errors
    /// [`Error::Occupied`] if the image is of another pool or later than this one, [`Error::Busy`] if a client may store
    /// through a grant, or did so during a save beside clients, [`Error::Cancelled`] if `watch` returns false, [`Error::Medium`] if the disk fails. The last save
    /// stays (KI2).
    pub fn save(
        &mut self,
        pool: &Pool,
        options: &SaveOptions<'_>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<SaveReport> {
        let disk =
            self.disk.as_deref().ok_or_else(|| Error::Limit("the kept image could not be opened again".into()))?;
        let mut last = match self.last.take() {
            Some(last) => last,
            None => LastSave::load(disk)?,
        };
        let report = last.save(disk, pool, options, watch)?;
        self.last = Some(last);
        Ok(report)
    }
}

impl LastSave {
    fn load(disk: &dyn Disk) -> Result<Self> {
        let header = KeptHeader::newest(disk)?;
        if !planted!("kept: a header that is not durable is believed") {
            disk.write(header.save % HEADER_BLOCKS * PAGE, &header.encode(), Access::Cached)?;
            disk.flush()?;
        }
        let tree = BlockTree::load(disk, &header)?;
        let free = FreeBlocks::of(&tree, disk.geometry().size)?;
        Ok(Self { header, tree, free, instant: None })
    }

    /// Returns the pages of `chunk` that the save has, and to which no thread stored since (KI5). Takes the marks of the
    /// others.
    fn unchanged_pages(&self, chunk: u64, snapshot: &PoolSnapshot) -> ChunkPages {
        let mut unchanged = ChunkPages::default();
        let first = chunk * CHUNK_PAGES;
        for (page, entry) in (0..CHUNK_PAGES).zip(self.tree.levels[0].get(first as usize..).unwrap_or_default()) {
            // A page of zeros may have been out of use at the last save, with any content.
            if !snapshot.take_mark(first + page) && !entry.is_zeros() {
                unchanged.insert(page..page + 1);
            }
        }
        unchanged
    }

    fn save(
        &mut self,
        disk: &dyn Disk,
        pool: &Pool,
        options: &SaveOptions<'_>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<SaveReport> {
        pool.check_poison()?;
        pool.grants().reap(pool)?;
        self.header.ensure_of(pool, "the kept image")?;
        let stamp = next_stamp(pool, options.nonce)?;
        // A grant begins with a transaction, so none begins while the pool is frozen.
        let mut frozen = Some(pool.freeze());
        let moment = Moment::of(pool, frozen.as_ref().expect("it is frozen"), options, self)?;
        let instant = moment.instant;
        if instant.is_some() {
            frozen = None;
        }
        let superblock = pool.superblock();
        let mut writing = Writing::begin(self, disk, superblock.size);
        let total = moment.chunks.len() as u64;
        let mut is_wanted = watch(progress("saving", 0, total));
        for (done, pages) in moment.chunks.iter().enumerate() {
            if !is_wanted {
                return Err(Error::Cancelled("the save"));
            }
            writing.chunk(&moment, pages)?;
            is_wanted = watch(progress("saving", done as u64 + 1, total));
        }
        writing.absent_chunks(&moment);
        if moment.snapshot.is_some_and(PoolSnapshot::was_shared) {
            return Err(Error::Busy("a process began to store into the pool directly during the save".into()));
        }
        writing.ensure_one_moment(moment)?;
        drop(frozen);
        let (written, changed, superseded) = writing.finish()?;
        if !planted!("kept: the header before its pages") {
            disk.flush()?;
        }
        let header = KeptHeader {
            size: superblock.size,
            save: self.header.save + 1,
            generation: superblock.generation.min(GENERATION_MAX - 1),
            stamp: Some(stamp),
            root: self.tree.root(),
            time_s: options.time_s,
            ..self.header
        };
        disk.write(header.save % HEADER_BLOCKS * PAGE, &header.encode(), Access::Cached)?;
        disk.flush()?;
        superseded.into_iter().for_each(|block| self.free.free(block));
        (self.header, self.instant) = (header, instant);
        let (changed_bytes, written_bytes) = (changed * PAGE, (written + 1) * PAGE);
        Ok(SaveReport { save: header.save(), changed_bytes, written_bytes })
    }
}

/// The pages of a chunk in use that a save holds.
struct SavedChunk {
    chunk: u64,
    pages: ChunkPages,
    /// The pages that the save reads, because they may have changed since the last save (KI5).
    read: ChunkPages,
}

impl SavedChunk {
    /// Returns the numbers in the pool of the pages that the save reads.
    fn read_pages(&self) -> impl Iterator<Item = u64> {
        let first = self.chunk * CHUNK_PAGES;
        self.read.runs().flatten().map(move |page| first + page)
    }
}

/// The pages of a pool at one moment (KI1).
struct Moment<'a> {
    memory: &'a dyn Memory,
    chunks: Vec<SavedChunk>,
    snapshot: Option<&'a PoolSnapshot>,
    instant: Option<SnapshotInstant>,
    /// The refusal because of clients that may store during this save.
    clients: Option<Error>,
}

impl<'a> Moment<'a> {
    fn of(pool: &'a Pool, frozen: &Frozen<'_>, options: &SaveOptions<'a>, last: &LastSave) -> Result<Self> {
        let memory = pool.memory();
        let clients = match pool.grants().refuse_writers(pool, &frozen.stilled()) {
            Err(error) if !options.beside_clients => return Err(error),
            refused => refused.err(),
        };
        pool.lanes().retire(memory)?;
        let used = used_chunks(memory, pool.superblock().size / CHUNK)?;
        // Stores of clients pass by the snapshot (SN3), so clients that stand still do so until the end.
        let snapshot = options.snapshot.filter(|_| pool.grants().refuse_writers(pool, &[]).is_ok());
        let marked = snapshot.filter(|snapshot| last.instant.is_some_and(|instant| snapshot.has_marks_since(instant)));
        if let (Some(snapshot), None) = (snapshot, marked) {
            snapshot.take_marks();
        }
        let chunks: Vec<SavedChunk> = used
            .into_iter()
            .map(|(chunk, pages)| {
                let pages = pages.without(lane_pages(chunk));
                let read = marked.map_or(pages, |snapshot| pages.without(last.unchanged_pages(chunk, snapshot)));
                SavedChunk { chunk, pages, read }
            })
            .collect();
        let instant = snapshot.map(|snapshot| snapshot.begin(chunks.iter().flat_map(SavedChunk::read_pages)));
        Ok(Self { memory, chunks, snapshot, instant, clients })
    }

    fn load(&self, page: u64, into: &mut BlockBytes) {
        match self.snapshot {
            Some(snapshot) => snapshot.take(page, into),
            None => self.memory.load(page * PAGE, into),
        }
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        self.snapshot.into_iter().for_each(PoolSnapshot::end);
    }
}

/// A save under way.
struct Writing<'a> {
    last: &'a mut LastSave,
    writer: BlockWriter<'a>,
    /// The nodes to write, by level: those above an entry that changed.
    is_changed: Vec<Vec<bool>>,
    /// Blocks of the last save that this one does not name.
    superseded: Vec<u64>,
    changed: u64,
}

impl<'a> Writing<'a> {
    fn begin(last: &'a mut LastSave, disk: &'a dyn Disk, size: u64) -> Self {
        let nodes: Vec<BlockEntry> = last.tree.levels.iter().skip(1).flatten().copied().collect();
        let moved = last.tree.grow(size);
        let is_changed = last.tree.levels.iter().map(|level| vec![moved; level.len()]).collect();
        let superseded =
            nodes.iter().filter(|entry| moved && !entry.is_zeros()).map(|entry| entry.block.get()).collect();
        Self { last, writer: BlockWriter::new(disk), is_changed, superseded, changed: 0 }
    }

    /// Saves the pages of a chunk.
    fn chunk(&mut self, moment: &Moment<'_>, SavedChunk { chunk, pages, read }: &SavedChunk) -> Result<()> {
        let key = self.last.header.key();
        let mut bytes = [0; BLOCK];
        for page in 0..CHUNK_PAGES {
            let at = (chunk * CHUNK_PAGES + page) as usize;
            let old = self.last.tree.levels[0][at];
            if !pages.contains(page) {
                self.set(0, at, BlockEntry::default());
            }
            if !read.contains(page) {
                continue;
            }
            moment.load(at as u64, &mut bytes);
            let sum = key.sum(&bytes);
            if !old.is_zeros() && sum == old.sum.get() || planted!("kept: a changed page is left out") && page % 8 == 3
            {
                continue;
            }
            if bytes == [0; BLOCK] {
                self.set(0, at, BlockEntry::default());
                continue;
            }
            self.changed += 1;
            self.write(0, at, &bytes)?;
        }
        Ok(())
    }

    /// Leaves out the chunks that are no longer in use.
    fn absent_chunks(&mut self, moment: &Moment<'_>) {
        let mut present = moment.chunks.iter().map(|pages| pages.chunk).peekable();
        for chunk in 0..self.last.tree.levels[0].len() as u64 / CHUNK_PAGES {
            if present.next_if_eq(&chunk).is_none() {
                let pages = (chunk * CHUNK_PAGES) as usize..((chunk + 1) * CHUNK_PAGES) as usize;
                pages.for_each(|at| self.set(0, at, BlockEntry::default()));
            }
        }
    }

    /// Refuses if a client has stored to a page after it was copied (KI1), and ends the moment.
    fn ensure_one_moment(&self, mut moment: Moment<'_>) -> Result<()> {
        let Some(refusal) = moment.clients.take() else { return Ok(()) };
        let (key, entries, mut bytes) = (self.last.header.key(), &self.last.tree.levels[0], [0; BLOCK]);
        for page in moment.chunks.iter().flat_map(SavedChunk::read_pages) {
            moment.load(page, &mut bytes);
            let entry = entries[page as usize];
            let is_same = if entry.is_zeros() { bytes == [0; BLOCK] } else { key.sum(&bytes) == entry.sum.get() };
            if !is_same && !planted!("kept: clients that store are not noticed") {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Writes `bytes` to a free block and names it (KI2).
    fn write(&mut self, level: usize, at: usize, bytes: &BlockBytes) -> Result<()> {
        let old = self.last.tree.levels[level][at];
        let block = match planted!("kept: a block in place") && !old.is_zeros() {
            true => old.block.get(),
            false => self.last.free.allocate()?,
        };
        self.writer.write(block, bytes)?;
        self.set(level, at, BlockEntry { block: block.into(), sum: self.last.header.key().sum(bytes).into() });
        Ok(())
    }

    fn set(&mut self, level: usize, at: usize, entry: BlockEntry) {
        let old = std::mem::replace(&mut self.last.tree.levels[level][at], entry);
        if old == entry {
            return;
        }
        if !old.is_zeros() && old.block != entry.block {
            self.superseded.push(old.block.get());
        }
        if let Some(above) = self.is_changed.get_mut(level + 1) {
            above[at / super::kept_format::FANOUT] = true;
        }
    }

    /// Writes the nodes. Returns the blocks written, the pages that changed, and the blocks that are free once the header
    /// is durable.
    fn finish(mut self) -> Result<(u64, u64, Vec<u64>)> {
        for level in 1..self.last.tree.levels.len() {
            for node in 0..self.is_changed[level].len() {
                if !self.is_changed[level][node] {
                    continue;
                }
                match self.last.tree.node(level, node) {
                    Some(bytes) => self.write(level, node, &bytes)?,
                    None => self.set(level, node, BlockEntry::default()),
                }
            }
        }
        self.writer.finish()?;
        Ok((self.writer.blocks, self.changed, self.superseded))
    }
}
