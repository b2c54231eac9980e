//! An open disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_disk::{Access, Disk, Geometry, Run, Zeroing};
#[cfg(doc)]
use ferrite_memory::Scheme;
use ferrite_memory::{Borrower, Error, Lent, Memory, Result, Span, pin, wait_for_pins};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES};
use ferrite_pool::{ChangeGate, Extent, Freeze, Pool, Role, Stream, Tag};
use parking_lot::{Mutex, MutexGuard};

use crate::checksum::Checksums;
use crate::dirty::DirtyBlocks;
use crate::free::FreeBlockSet;
use crate::map::{BlockMap, MapEntry, MapWord};
use crate::options::{DiskOptions, Shortcut};
use crate::room::{KEPT, ThinRoom};
use crate::shape::{self, BLOCK, DISK_BYTES_MAX, DiskShape};
use crate::stages::{DiskStage, StageMemory, StageTimer, Stages};
use crate::table::{GrowingTable, zeroed};

/// The largest number of runs that one call of [`Disk::extents`] returns.
const RUNS_MAX: usize = 4096;

/// An open disk in a pool.
///
/// A write is durable when it completes if the memory's fence is durable and the scheme settles at a fence
/// ([`Scheme::is_durable_at_fence`]). Otherwise it is durable after the next flush.
pub struct BlockDisk {
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) options: DiskOptions,
    pub(crate) map: BlockMap,
    pub(crate) free: FreeBlockSet,
    /// Counts the blocks that a thin disk may still hand out; `None` if the disk is not thin.
    pub(crate) room: Option<ThinRoom>,
    pub(crate) gate: ChangeGate,
    /// Marks the words that a flush has to write; `None` if a fence makes data durable.
    pub(crate) dirty: Option<DirtyBlocks>,
    pub(crate) publishing: Mutex<()>,
    /// The checksum of each block; `None` if the disk keeps none.
    pub(crate) checksums: Option<Checksums>,
    pub(crate) shortcut: Shortcut,
    stages: Option<Arc<Stages>>,
    /// True if a read does more than copy.
    pub(crate) has_slow_reads: bool,
    tag: Mutex<Arc<Tag>>,
    shape: DiskShape,
    identity: [u8; 16],
    size: AtomicU64,
    /// The offset in the pool of each chunk of the data stream.
    pub(crate) chunks: GrowingTable<AtomicU64>,
    /// The number of blocks of the data stream.
    pub(crate) data_blocks: AtomicU64,
}

impl BlockDisk {
    /// Opens the disk called `name`. The caller keeps a disk from being open twice at a time.
    ///
    /// # Errors
    /// The errors of [`DiskShape::read`]; [`ferrite_pool::Error::Corrupt`] if the map names a block twice or names a
    /// block that does not exist; [`ferrite_pool::Error::Medium`] if there is no memory for the tables.
    pub fn open(pool: Arc<Pool>, name: &str, options: DiskOptions) -> ferrite_pool::Result<Arc<Self>> {
        let tag = pool.tag(name)?;
        let shape = DiskShape::read(&tag)?;
        let memory = pool.memory_handle();
        let blocks_max = DISK_BYTES_MAX / BLOCK;
        let settles = memory.fence_is_durable() && options.scheme.is_durable_at_fence();
        let mut identity = pool.superblock().uuid;
        for (byte, salt) in identity.iter_mut().zip(tag.generation.to_le_bytes()) {
            *byte ^= salt;
        }
        let stages = options.stages.map(|cycles| Arc::new(Stages::new(cycles)));
        let memory = match &stages {
            Some(stages) => Arc::new(StageMemory { memory, stages: Arc::clone(stages) }),
            None => memory,
        };
        let mut disk = Self {
            memory,
            options,
            map: BlockMap::new(blocks_max)?,
            free: FreeBlockSet::counted(stages.clone()),
            room: None,
            gate: ChangeGate::default(),
            dirty: (!settles).then(|| DirtyBlocks::new(blocks_max)),
            publishing: Mutex::new(()),
            checksums: shape.checksum.then(|| Checksums::new(blocks_max)),
            shortcut: Shortcut::of(&options, settles, shape.checksum),
            has_slow_reads: shape.checksum || stages.is_some(),
            stages,
            shape,
            identity,
            size: AtomicU64::new(shape.size),
            chunks: GrowingTable::new(2 * blocks_max / CHUNK_PAGES),
            data_blocks: AtomicU64::new(0),
            tag: Mutex::new(Arc::clone(&tag)),
            pool,
        };
        disk.grow_tables(tag.size.div_ceil(BLOCK), Stream::new(&tag.extents, Role::DATA).len() / CHUNK)?;
        disk.adopt(&tag);
        disk.load_map(&tag)?;
        disk.room = shape.thin.then(|| ThinRoom::of(disk.free.count()));
        let disk = Arc::new(disk);
        let service: Arc<dyn Freeze> = disk.clone();
        disk.pool.register_freezer(Arc::downgrade(&service));
        Ok(disk)
    }

    /// Grows the disk to `size` bytes while it is in use. Clients that read its geometry earlier see the old size.
    ///
    /// # Errors
    /// The errors of [`crate::resize`]; [`ferrite_pool::Error::Medium`] if there is no memory for the tables.
    pub fn resize(&self, size: u64) -> ferrite_pool::Result<()> {
        self.pool.with_spare(|| {
            let mut tag = self.tag.lock();
            let shape = shape::grown(&tag, size)?;
            self.grow_tables(shape.blocks, shape.data_bytes().div_ceil(CHUNK))?;
            let grown = shape::resize(&self.pool, &tag, size)?;
            self.adopt_grown(&grown);
            self.size.store(size, Ordering::Release);
            *tag = grown;
            Ok(())
        })
    }

    /// Locks the tag of the disk for a change. The caller stores the changed tag through the guard.
    pub(crate) fn tag_to_change(&self) -> MutexGuard<'_, Arc<Tag>> {
        self.tag.lock()
    }

    /// Returns the current tag of the disk.
    pub fn tag(&self) -> Arc<Tag> {
        Arc::clone(&self.tag.lock())
    }

    /// Returns the bytes of blocks in use and the bytes of free blocks.
    pub fn used_and_free_bytes(&self) -> (u64, u64) {
        let (all, free) = (self.data_blocks.load(Ordering::Acquire), self.free.count());
        (all.saturating_sub(free) * BLOCK, free * BLOCK)
    }

    /// Returns the counters of the stages, or `None` if stages are not counted.
    pub fn stages(&self) -> Option<&Arc<Stages>> {
        self.stages.as_ref()
    }

    /// Counts a whole request until the timer is dropped.
    pub(crate) fn whole(&self) -> StageTimer<'_> {
        StageTimer::start(self.stages.as_deref(), DiskStage::Total)
    }

    /// Counts `work` as `stage`, if stages are counted.
    #[inline]
    pub(crate) fn timed<T>(&self, stage: DiskStage, work: impl FnOnce() -> T) -> T {
        let _timer = StageTimer::start(self.stages.as_deref(), stage);
        work()
    }

    /// Grows the tables to `blocks` blocks and `chunks` chunks of the data stream. Callers grow the tables before they
    /// change anything, because there may be no memory for them.
    pub(crate) fn grow_tables(&self, blocks: u64, chunks: u64) -> ferrite_pool::Result<()> {
        self.map.grow(blocks)?;
        self.dirty.as_ref().map_or(Ok(()), |dirty| dirty.grow(blocks))?;
        self.checksums.as_ref().map_or(Ok(()), |checksums| checksums.grow(blocks))?;
        self.chunks.grow(chunks)
    }

    /// Takes over the space of `tag`, to which the tables were grown. Returns the number of data blocks before.
    pub(crate) fn adopt(&self, tag: &Tag) -> u32 {
        self.map.adopt(&tag.extents, tag.size.div_ceil(BLOCK));
        let stream = Stream::new(&tag.extents, Role::DATA);
        let count = stream.len() / CHUNK;
        for chunk in 0..count {
            let place = stream.locate(chunk * CHUNK).expect("within the stream").at;
            self.chunks.row(chunk).store(place, Ordering::Release);
        }
        self.data_blocks.swap(count * CHUNK_PAGES, Ordering::AcqRel) as u32
    }

    /// Reads the map from the medium and collects the free blocks.
    fn load_map(&self, tag: &Tag) -> ferrite_pool::Result<()> {
        let data_blocks = self.data_blocks.load(Ordering::Acquire);
        let mut used = zeroed::<bool>(data_blocks as usize)?;
        let mut words = [MapWord::default(); 4096];
        let blocks = self.shape.blocks;
        for first in (0..blocks).step_by(words.len()) {
            let count = (blocks - first).min(words.len() as u64) as usize;
            self.map.published(&*self.memory, first, &mut words[..count]);
            for (index, word) in (first..).zip(&words[..count]) {
                let Some(block) = word.entry().block() else { continue };
                if block >= data_blocks || std::mem::replace(&mut used[block as usize], true) {
                    let what = format!("the map of disk {:?} (block {index})", tag.name);
                    return Err(ferrite_pool::Error::Corrupt { what, at: first_map_byte(&tag.extents) });
                }
                self.map.set(index, word.entry());
                if let Some(checksums) = &self.checksums {
                    checksums.set(index, word.checksum());
                }
            }
        }
        self.map.find_groups(blocks, |block| self.place(block));
        let free = used.iter().enumerate().filter(|(_, used)| !**used).map(|(block, _)| block as u32);
        self.free.add(free);
        Ok(())
    }

    /// Returns the number of blocks that the disk's size needs.
    pub(crate) fn blocks(&self) -> u64 {
        self.size.load(Ordering::Acquire).div_ceil(BLOCK)
    }

    /// Returns the number of blocks beyond its size that the disk keeps for overwrites.
    pub(crate) fn spares(&self) -> u64 {
        if self.shape.thin { KEPT } else { self.shape.spares }
    }

    #[inline]
    fn is_good(&self, span: Span) -> bool {
        span.fits(self.size.load(Ordering::Acquire)) && span.aligned_to(u64::from(self.shape.sector_bytes))
    }

    #[cold]
    #[inline(never)]
    fn out_of_range(&self, span: Span) -> Error {
        let (size, sector_bytes) = (self.size.load(Ordering::Acquire), self.shape.sector_bytes);
        Error::OutOfRange { at: span.at, len: span.len, size, sector_bytes }
    }

    #[inline]
    pub(crate) fn check_change(&self, span: Span) -> Result<()> {
        self.check(span)?;
        if self.takes_changes() { Ok(()) } else { self.refuse_change() }
    }

    #[inline]
    fn takes_changes(&self) -> bool {
        !self.options.read_only && self.pool.check_poison().is_ok()
    }

    #[cold]
    #[inline(never)]
    fn refuse_change(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.pool.check_poison().map_err(medium_error)
    }
}

impl Freeze for BlockDisk {
    fn freeze(&self) {
        self.gate.close();
        wait_for_pins();
        // A failed persist poisons the pool, and the backup checks for that.
        let _ = self.flush_map();
    }

    fn thaw(&self) {
        self.gate.open();
    }

    fn spare(&self) -> bool {
        self.release_chunks().unwrap_or(false)
    }
}

fn first_map_byte(extents: &[Extent]) -> u64 {
    extents.iter().find(|extent| extent.role == Role::MAP).map_or(0, |extent| extent.span().at)
}

/// Converts an error of the pool into an error of a disk.
pub(crate) fn medium_error(error: ferrite_pool::Error) -> Error {
    match error {
        ferrite_pool::Error::Medium(error) => error,
        ferrite_pool::Error::Poisoned(why) => Error::Poisoned(why),
        full @ ferrite_pool::Error::Full { .. } => Error::NoSpace(full.to_string()),
        other => Error::io("the pool", std::io::Error::other(other)),
    }
}

impl Disk for BlockDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size.load(Ordering::Acquire),
            sector_bytes: self.shape.sector_bytes,
            atomic_bytes: if self.options.in_place { 8 } else { BLOCK as u32 },
            preferred_bytes: BLOCK as u32,
            volatile_cache: self.dirty.is_some(),
            read_only: self.options.read_only,
            trim: true,
            identity: self.identity,
        }
    }

    #[inline]
    fn check(&self, span: Span) -> Result<()> {
        if self.is_good(span) { Ok(()) } else { Err(self.out_of_range(span)) }
    }

    // Inlined into the caller, with no store except the pin's: a guard's copy waits for the stores before it.
    #[inline(always)]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        if self.has_slow_reads || !self.is_good(span) {
            return self.read_slow(at, into).map_err(|why| *why);
        }
        if let Some(usual) = self.map.usual(span) {
            self.memory.load(usual.place, into);
            if self.map.is_still(&usual) {
                return Ok(());
            }
        }
        let _pin = pin();
        self.read_runs(at, into);
        Ok(())
    }

    // Inlined for the same reason as `read`.
    #[inline(always)]
    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let is_usual =
            access == Access::Cached && self.is_good(Span::new(at, from.len() as u64)) && self.takes_changes();
        if is_usual && self.overwrite_run(at, from) {
            return Ok(());
        }
        self.write_cow(at, from, access).map_err(|why| *why)
    }

    fn flush(&self) -> Result<()> {
        let _whole = self.whole();
        self.flush_map()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.check_change(span)?;
        let _whole = self.whole();
        let (first, end) = (span.at.div_ceil(BLOCK), (span.at + span.len) / BLOCK);
        self.unmap(first..end.max(first))?;
        self.finish(access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check_change(span)?;
        let _whole = self.whole();
        if span.len == 0 {
            return self.finish(how.access);
        }
        if how.keep_space {
            return self.zero_by_writing(span, how);
        }
        let end = span.at + span.len;
        let (first, last) = (span.at.div_ceil(BLOCK), end / BLOCK);
        if first >= last && span.at / BLOCK == (end - 1) / BLOCK {
            return self.zero_by_writing(span, Zeroing { fast: false, ..how });
        }
        let (head, tail) = (first * BLOCK - span.at, end - last * BLOCK);
        self.write_blocks(span.at, &[0; BLOCK as usize][..head as usize])?;
        self.unmap(first..last.max(first))?;
        self.write_blocks(last * BLOCK, &[0; BLOCK as usize][..tail as usize])?;
        self.finish(how.access)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        let (mut runs, mut done) = (Vec::<Run>::new(), 0);
        while done < span.len && runs.len() < RUNS_MAX {
            let (entry, len) = self.run(Span::new(span.at + done, span.len - done));
            let hole = entry == MapEntry::ZERO;
            match runs.last_mut() {
                Some(last) if last.hole == hole => last.len += len,
                _ => runs.push(Run { len, hole, zero: hole }),
            }
            done += len;
        }
        Ok(runs)
    }

    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        self.check(span).ok()?;
        self.lend_run(span, least_bytes, borrower)
    }
}
