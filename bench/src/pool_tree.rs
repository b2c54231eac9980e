//! Pools in memory, and their file systems, open in this process, mounted or not.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_fs::{
    FileSystem, FsOptions, FsSpec, SUPER_THRESHOLD_BYTES, TierDisk, TierOpening, TierPolicy, TierStats, Time,
};
use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Span, stamp_ns};
use ferrite_mount::{MountOptions, Mounted, NotUnmounted};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

use crate::scratch::Scratch;
use crate::{Error, Result, machine};

/// The boot in which all pools are made and opened.
pub const BOOT: [u8; 16] = [1; 16];
/// The address of the SSD of every tier; only this process opens it.
const SSD_ADDRESS: &str = "the bench's SSD";
/// Threads that answer a mount with a tier, as many as `ferrite` has.
const TIER_THREADS: usize = 16;

/// A pool in memory, open.
pub struct OpenPool {
    pool: Arc<Pool>,
    memory: Arc<Mapped>,
    place: Arc<ClosedPool>,
}

/// A closed pool, whose memory stays.
pub struct ClosedPool {
    path: PathBuf,
    small_pages: bool,
    _scratch: Scratch,
}

impl OpenPool {
    /// A new pool of at least `bytes` in `place`, under the best guard, with every page touched.
    pub fn new(place: &Path, bytes: u64) -> Result<Arc<Self>> {
        Self::of_pages(place, bytes, false)
    }

    /// A new pool in the small pages of tmpfs.
    pub fn of_small_pages(place: &Path, bytes: u64) -> Result<Arc<Self>> {
        Self::of_pages(place, bytes, true)
    }

    fn of_pages(place: &Path, bytes: u64, small_pages: bool) -> Result<Arc<Self>> {
        let scratch = Scratch::new(place)?;
        let size = bytes.next_multiple_of(CHUNK);
        scratch.file("pool", size)?;
        let place = Arc::new(ClosedPool { path: scratch.path("pool"), small_pages, _scratch: scratch });
        let memory = place.map(Guard::best())?;
        memory.reserve(Span::new(0, size))?;
        Pool::create(&memory, &Format { uuid: [7; 16], boot_id: BOOT })?;
        Self::over(memory, place).map(Arc::new)
    }

    fn over(memory: Mapped, place: Arc<ClosedPool>) -> Result<Self> {
        let memory = Arc::new(memory);
        let pool = Arc::new(Pool::open(Arc::clone(&memory) as Arc<dyn Memory>, BOOT)?.0);
        Ok(Self { pool, memory, place })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The place of the pool, which outlives it.
    pub fn place(&self) -> Arc<ClosedPool> {
        Arc::clone(&self.place)
    }

    /// Bytes of the pages that map most of the pool.
    pub fn page_bytes(&self) -> u64 {
        self.memory.page_bytes()
    }

    /// Closes the pool, which must have no other user.
    pub fn close(self: Arc<Self>) -> Result<Arc<ClosedPool>> {
        let Self { pool, place, .. } = Arc::into_inner(self).expect("nobody uses it");
        Arc::into_inner(pool).expect("nobody uses it").close()?;
        Ok(place)
    }
}

impl ClosedPool {
    /// The path of the pool's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the pool as its memory is now to a new one in `place`: what a kill of its owner leaves.
    pub fn killed(&self, place: &Path) -> Result<Arc<Self>> {
        let scratch = Scratch::new(place)?;
        let path = scratch.path("pool");
        std::fs::copy(&self.path, &path).map_err(Error::io(format!("copying {}", self.path.display())))?;
        Ok(Arc::new(Self { path, small_pages: self.small_pages, _scratch: scratch }))
    }

    /// Opens the pool.
    pub fn open(self: &Arc<Self>) -> Result<Arc<OpenPool>> {
        OpenPool::over(self.map(Guard::best())?, Arc::clone(self)).map(Arc::new)
    }

    /// A mapping of the pool under `guard`.
    pub fn map(&self, guard: Guard) -> Result<Mapped> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = file.map_err(Error::io(format!("opening {}", self.path.display())))?;
        let (name, small_pages) = (self.path.display().to_string(), self.small_pages);
        Ok(Mapped::map(file, &MapOptions { guard, small_pages, name, ..MapOptions::default() })?)
    }
}

/// A file system of a pool, and how it is mounted.
#[derive(Clone)]
pub struct PoolTree {
    /// The pool.
    pub open_pool: Arc<OpenPool>,
    /// The name of the file system in the pool.
    pub name: &'static str,
    /// Whether the kernel caches writes.
    pub cached: bool,
    /// The size in bytes from which a file moves to superpages.
    pub super_threshold_bytes: Option<u64>,
    /// The SSD of its tier, which has no content.
    pub ssd: Option<Arc<dyn Disk>>,
}

impl PoolTree {
    /// The file system `name`, not cached, with large files in superpages.
    pub fn new(open_pool: &Arc<OpenPool>, name: &'static str) -> Self {
        let super_threshold_bytes = Some(SUPER_THRESHOLD_BYTES);
        Self { open_pool: Arc::clone(open_pool), name, cached: false, super_threshold_bytes, ssd: None }
    }

    /// The file system `name`, not cached, without superpages.
    pub fn of_small_files(open_pool: &Arc<OpenPool>, name: &'static str) -> Self {
        Self { super_threshold_bytes: None, ..Self::new(open_pool, name) }
    }

    /// Makes the file system, empty, in place of the one before; every user may write to it.
    pub fn make(&self) -> Result<()> {
        if self.open_pool.pool.tag(self.name).is_ok() {
            FileSystem::remove(&self.open_pool.pool, self.name)?;
        }
        let super_threshold_bytes = self.super_threshold_bytes;
        let spec = FsSpec { super_threshold_bytes, uid: 0, gid: 0, mode: 0o777, hash_seed: 7, now: now() };
        FileSystem::create(&self.open_pool.pool, self.name, &spec)?;
        let Some(disk) = &self.ssd else { return Ok(()) };
        let ssd = TierDisk { uuid: [9; 16], address: SSD_ADDRESS.into(), disk: Arc::clone(disk) };
        Ok(FileSystem::add_tier(&self.open_pool.pool, self.name, &[ssd], Some(disk.geometry().size), 1)?)
    }

    /// Opens the file system.
    pub fn open(&self) -> Result<Arc<FileSystem>> {
        let options = FsOptions { data: None, read_only: false, clock: Arc::new(now) };
        let open = |_: &str| self.ssd.clone().ok_or_else(|| "there is none".to_owned());
        let opening = TierOpening { open: &open, nonce: 1 };
        Ok(FileSystem::open_tiered(Arc::clone(&self.open_pool.pool), self.name, options, &opening)?)
    }
}

/// The time of the clock that `ferrite` stamps files by.
pub fn now() -> Time {
    Time(stamp_ns())
}

/// Finishes all work of the background.
pub fn finish_background(fs: &FileSystem) -> Result<()> {
    while fs.step()? {}
    Ok(())
}

/// A file system of ours with a mount point, served by threads of this process.
pub struct ServedTree {
    tree: PoolTree,
    point: PathBuf,
    shown: RefCell<Option<OpenTree>>,
}

struct OpenTree {
    fs: Arc<FileSystem>,
    mounted: Mounted,
}

impl ServedTree {
    /// `tree`, not yet mounted on `point`.
    pub fn new(tree: PoolTree, point: &Path) -> Self {
        Self { tree, point: point.into(), shown: RefCell::new(None) }
    }

    /// Makes the file system again, empty; it must not be mounted.
    pub fn make(&self) -> Result<()> {
        self.tree.make()
    }

    /// Mounts the file system.
    pub fn mount(&self) -> Result<()> {
        let fs = self.tree.open()?;
        let options = MountOptions {
            source: format!("{}:{}", self.tree.open_pool.place.path.display(), self.tree.name),
            cached: self.tree.cached,
            allow_other: true,
            threads: machine::cores().max(if self.tree.ssd.is_some() { TIER_THREADS } else { 2 }),
            ..MountOptions::default()
        };
        let mounted = Mounted::start(&fs, &self.point, &options);
        let mounted = mounted.map_err(Error::io(format!("mounting on {}", self.point.display())))?;
        *self.shown.borrow_mut() = Some(OpenTree { fs, mounted });
        Ok(())
    }

    /// Finishes work of the background thread.
    pub fn finish_background(&self) -> Result<()> {
        self.shown.borrow().as_ref().map_or(Ok(()), |shown| finish_background(&shown.fs))
    }

    /// Destages all content that may leave the pool.
    pub fn drain(&self) -> Result<()> {
        self.shown.borrow().as_ref().map_or(Ok(()), |shown| Ok(shown.fs.drain_tier()?))
    }

    /// Returns what the tier did since the file system was mounted; `None` without a tier.
    pub fn tier_stats(&self) -> Option<TierStats> {
        self.shown.borrow().as_ref().and_then(|shown| shown.fs.tier_stats())
    }

    /// Sets the rules by which the tier moves pages.
    pub fn set_policy(&self, policy: TierPolicy) -> Result<()> {
        self.shown.borrow().as_ref().map_or(Ok(()), |shown| Ok(shown.fs.tier_upkeep().set_policy(policy)?))
    }

    /// Unmounts the file system, if it is mounted.
    pub fn unmount(&self) -> Result<()> {
        let mut shown = self.shown.borrow_mut();
        let Some(there) = shown.as_mut() else { return Ok(()) };
        there.mounted.unmount().map_err(|why| match why {
            NotUnmounted::Busy(users) => {
                Error::server(self.point.display().to_string(), format!("used by {}", users.join(", ")))
            }
            NotUnmounted::Io(why) => Error::io(format!("unmounting {}", self.point.display()))(why),
        })?;
        *shown = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
