//! Pools in memory for file systems of ours, and those file systems: open in this process, mounted or not.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_fs::{FileSystem, FsOptions, FsSpec, Time};
use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Span, stamp_ns};
use ferrite_mount::{MountOptions, Mounted, NotUnmounted};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

use crate::scratch::Scratch;
use crate::{Error, Result, machine};

const BOOT: [u8; 16] = [1; 16];

/// A pool in memory, open.
pub struct Grove {
    pool: Arc<Pool>,
    memory: Arc<Mapped>,
    place: Arc<Shut>,
}

/// The same, closed; its memory stays.
pub struct Shut {
    path: PathBuf,
    small_pages: bool,
    _scratch: Scratch,
}

impl Grove {
    /// A new one of at least `bytes` in `place`, under the best guard, every page of which has been touched.
    pub fn new(place: &Path, bytes: u64) -> Result<Arc<Self>> {
        Self::of_pages(place, bytes, false)
    }

    /// The same, in the small pages that tmpfs gives.
    pub fn of_small_pages(place: &Path, bytes: u64) -> Result<Arc<Self>> {
        Self::of_pages(place, bytes, true)
    }

    fn of_pages(place: &Path, bytes: u64, small_pages: bool) -> Result<Arc<Self>> {
        let scratch = Scratch::new(place)?;
        let size = bytes.next_multiple_of(CHUNK);
        scratch.file("pool", size)?;
        let place = Arc::new(Shut { path: scratch.path("pool"), small_pages, _scratch: scratch });
        let memory = place.map()?;
        memory.reserve(Span::new(0, size))?;
        Pool::create(&memory, &Format { uuid: [7; 16], boot_id: BOOT })?;
        Self::over(memory, place).map(Arc::new)
    }

    fn over(memory: Mapped, place: Arc<Shut>) -> Result<Self> {
        let memory = Arc::new(memory);
        let pool = Arc::new(Pool::open(Arc::clone(&memory) as Arc<dyn Memory>, BOOT)?.0);
        Ok(Self { pool, memory, place })
    }

    /// Bytes of the pages that map most of it.
    pub fn page_bytes(&self) -> u64 {
        self.memory.page_bytes()
    }

    /// Closes it; nobody uses it any more.
    pub fn shut(self: Arc<Self>) -> Result<Arc<Shut>> {
        let Self { pool, place, .. } = Arc::into_inner(self).expect("nobody uses it");
        Arc::into_inner(pool).expect("nobody uses it").close()?;
        Ok(place)
    }
}

impl Shut {
    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it.
    pub fn open(self: &Arc<Self>) -> Result<Arc<Grove>> {
        Grove::over(self.map()?, Arc::clone(self)).map(Arc::new)
    }

    fn map(&self) -> Result<Mapped> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = file.map_err(Error::io(format!("opening {}", self.path.display())))?;
        let (name, small_pages) = (self.path.display().to_string(), self.small_pages);
        Ok(Mapped::map(file, &MapOptions { guard: Guard::best(), small_pages, name, ..MapOptions::default() })?)
    }
}

/// A file system of a pool, and how it is shown.
#[derive(Clone)]
pub struct Tree {
    /// The pool.
    pub grove: Arc<Grove>,
    /// Its name in the pool.
    pub name: &'static str,
    /// The kernel keeps writes back.
    pub cached: bool,
    /// Bytes from which on a file is moved to superpages.
    pub super_threshold_bytes: Option<u64>,
}

impl Tree {
    /// Makes it, with nothing in it; any user may put something there.
    pub fn make(&self) -> Result<()> {
        if self.grove.pool.tag(self.name).is_ok() {
            FileSystem::remove(&self.grove.pool, self.name)?;
        }
        let super_threshold_bytes = self.super_threshold_bytes;
        let spec = FsSpec { super_threshold_bytes, uid: 0, gid: 0, mode: 0o777, hash_seed: 7, now: now() };
        Ok(FileSystem::create(&self.grove.pool, self.name, &spec)?)
    }

    /// Opens it.
    pub fn open(&self) -> Result<Arc<FileSystem>> {
        let options = FsOptions { data: None, read_only: false, clock: Arc::new(now) };
        Ok(FileSystem::open(Arc::clone(&self.grove.pool), self.name, options)?)
    }
}

/// The time, as `ferrite` stamps files with it.
pub fn now() -> Time {
    Time(stamp_ns())
}

/// Does all that waits in the background.
pub fn settle(fs: &FileSystem) -> Result<()> {
    while fs.step()? {}
    Ok(())
}

/// A file system of ours on a mount point of its own, served by threads of this process.
pub struct Visible {
    tree: Tree,
    point: PathBuf,
    shown: RefCell<Option<Shown>>,
}

struct Shown {
    fs: Arc<FileSystem>,
    mounted: Mounted,
}

impl Visible {
    /// `tree`, not yet mounted on `point`.
    pub fn new(tree: Tree, point: &Path) -> Self {
        Self { tree, point: point.into(), shown: RefCell::new(None) }
    }

    /// Makes it anew; it is not mounted.
    pub fn make(&self) -> Result<()> {
        self.tree.make()
    }

    /// Mounts it.
    pub fn mount(&self) -> Result<()> {
        let fs = self.tree.open()?;
        let options = MountOptions {
            source: format!("{}:{}", self.tree.grove.place.path.display(), self.tree.name),
            cached: self.tree.cached,
            allow_other: true,
            threads: machine::cores().max(2),
            ..MountOptions::default()
        };
        let mounted = Mounted::start(&fs, &self.point, &options);
        let mounted = mounted.map_err(Error::io(format!("mounting on {}", self.point.display())))?;
        *self.shown.borrow_mut() = Some(Shown { fs, mounted });
        Ok(())
    }

    /// Does what its background thread would do a little later.
    pub fn settle(&self) -> Result<()> {
        self.shown.borrow().as_ref().map_or(Ok(()), |shown| settle(&shown.fs))
    }

    /// Unmounts it, if it is mounted.
    pub fn unmount(&self) -> Result<()> {
        let mut shown = self.shown.borrow_mut();
        let Some(there) = shown.as_mut() else { return Ok(()) };
        there.mounted.unmount().map_err(|why| match why {
            NotUnmounted::Busy(users) => {
                Error::Server { who: self.point.display().to_string(), what: format!("used by {}", users.join(", ")) }
            }
            NotUnmounted::Io(why) => Error::io(format!("unmounting {}", self.point.display()))(why),
        })?;
        *shown = None;
        Ok(())
    }
}
