//! A pool with one disk, opened under one guard after the other and all at once.
//!
//! Only data is copied while more than one of them is open: each keeps a map of its own, and none of them changes it.

use std::path::Path;
use std::sync::Arc;

use ferrite_block::{BlockDisk, DiskOptions, DiskSpec};
use ferrite_disk::{Access, Disk};
use ferrite_memory::{Guard, Mapped, Memory, Scheme, Span};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Pool, Role};

use crate::Result;
use crate::bare_copy::BareCopy;
use crate::copy_buffer::CopyBuffer;
use crate::pool_tree::{BOOT, ClosedPool, OpenPool};

const NAME: &str = "disk";
/// Bytes of a write that fills a disk.
pub const FILL_BYTES: usize = 256 << 10;

/// A filled disk in a file of its own.
pub struct FilledDisk {
    place: Arc<ClosedPool>,
    /// The longest run of the disk's data in the pool.
    data: Span,
}

impl FilledDisk {
    /// Makes a pool in `place` and in it a disk of `disk_bytes`, filled in sequence.
    pub fn build(place: &Path, disk_bytes: u64) -> Result<Self> {
        let open_pool = OpenPool::new(place, Self::file_bytes(disk_bytes))?;
        let pool = open_pool.pool();
        let spec = DiskSpec { size: disk_bytes, sector_bytes: 512, thin: false, checksum: false };
        ferrite_block::create(pool, NAME, &spec)?;
        fill(&*BlockDisk::open(Arc::clone(pool), NAME, DiskOptions::default())?)?;
        let tag = pool.tag(NAME)?;
        let runs = tag.extents.iter().filter(|extent| extent.role == Role::DATA).map(|extent| extent.span());
        let data = runs.max_by_key(|run| run.len).expect("a disk has data");
        Ok(Self { place: open_pool.place(), data })
    }

    /// Bytes of the file of a disk of `disk_bytes`, which are reserved at once.
    pub fn file_bytes(disk_bytes: u64) -> u64 {
        (disk_bytes + disk_bytes / 16 + (16 << 20)).next_multiple_of(CHUNK)
    }

    /// Bytes that every subject works on.
    pub fn size(&self) -> u64 {
        self.data.len * 15 / 16 / CHUNK * CHUNK
    }

    /// The disk under `guard` by default options: whole sectors, with every page touched.
    pub fn whole(&self, guard: Guard) -> Result<Arc<BlockDisk>> {
        self.disk_on(self.map(guard)?, DiskOptions::default())
    }

    /// The disk under `guard`, overwritten in place by `scheme` as the paper's is, with every page touched.
    pub fn in_place(&self, guard: Guard, scheme: Scheme) -> Result<Arc<BlockDisk>> {
        self.disk_on(self.map(guard)?, DiskOptions { scheme, in_place: true, ..DiskOptions::default() })
    }

    /// The disk on a mapping made by [`FilledDisk::map`], wrapped or not.
    pub fn disk_on(&self, memory: impl Memory + 'static, options: DiskOptions) -> Result<Arc<BlockDisk>> {
        let pool = Pool::open(Arc::new(memory), BOOT)?.0;
        Ok(BlockDisk::open(Arc::new(pool), NAME, options)?)
    }

    /// The data under `guard` without the disk, with every page touched.
    pub fn bare(&self, guard: Guard) -> Result<BareCopy> {
        Ok(BareCopy::new(Arc::new(self.map(guard)?), self.data.at))
    }

    /// A mapping of the pool under `guard`, with every page touched.
    pub fn map(&self, guard: Guard) -> Result<Mapped> {
        let memory = self.place.map(guard)?;
        memory.populate(Span::new(0, memory.size()))?;
        Ok(memory)
    }
}

/// Fills `disk` in sequence.
pub fn fill(disk: &dyn Disk) -> Result<()> {
    let (buffer, size) = (CopyBuffer::new(FILL_BYTES), disk.geometry().size);
    for at in (0..size).step_by(FILL_BYTES) {
        let len = (size - at).min(FILL_BYTES as u64) as usize;
        disk.write(at, &buffer.bytes()[..len], Access::Cached)?;
    }
    Ok(())
}

/// Whether `len` bytes at `at`, a multiple of [`FILL_BYTES`], are read as [`fill`] wrote them.
pub fn is_filled(disk: &dyn Disk, at: u64, len: usize) -> Result<bool> {
    let mut read = CopyBuffer::new(len);
    read.bytes_mut().fill(0);
    disk.read(at, read.bytes_mut())?;
    Ok(read.bytes() == CopyBuffer::new(len).bytes())
}

#[cfg(test)]
mod tests;
