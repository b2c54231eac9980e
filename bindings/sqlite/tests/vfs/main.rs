//! SQLite's own shell with this VFS: the VFS keeps its promises through kills, moves, full pools and other programs.

mod forks;
mod full_disk;
mod given_back;
mod given_cuts;
mod kills;
mod modes;
mod others;
mod own;
mod refusals;
mod secure;
mod shell;
mod stale;
mod unnamed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_owner::ServiceRegistry;
use ferrite_pool::{Format, Pool, Role, Stream, TagChange};
use ferrite_sqlite_log::{DatabasePool, DatabaseService};
use tempfile::TempDir;

/// The boot identity of the pools of these tests.
const BOOT: [u8; 16] = [0; 16];

/// Opens the pool at `path`, like every process that keeps databases' logs in it.
pub(crate) fn open_pool(path: &Path) -> ferrite_sqlite_log::Result<Arc<DatabasePool>> {
    DatabasePool::open(path, Arc::new(ServiceRegistry::default().with(DatabaseService)), random, || 0)
}

/// Returns the next number of a sequence. The shells draw their own random numbers; this process draws so few that a
/// sequence suffices.
fn random() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A folder with a pool and the files of a database.
pub(crate) struct Place {
    folder: TempDir,
    pool: PathBuf,
}

impl Place {
    /// Creates the folder on tmpfs, where a completed write is durable.
    pub(crate) fn new() -> Self {
        Self::of("/dev/shm", 32 << 20)
    }

    /// Creates the folder under `place`, with a pool of `pool_bytes` bytes.
    pub(crate) fn of(place: &str, pool_bytes: u64) -> Self {
        let folder = TempDir::new_in(place).unwrap();
        let pool = folder.path().join("pool");
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&pool).unwrap();
        file.set_len(pool_bytes).unwrap();
        let mapped = Mapped::map(file, &MapOptions::default()).unwrap();
        Pool::create(&mapped, &Format { uuid: *b"sqlite test pool", boot_id: BOOT }).unwrap();
        Self { folder, pool }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the URI with which a shell opens the database `name` by this VFS.
    pub(crate) fn uri(&self, name: &str) -> String {
        format!("file:{}?vfs=ferrite&pool={}", self.path(name).display(), self.pool.display())
    }

    /// Gives the tag of database `name` the form that it had before logs had identities.
    pub(crate) fn forget_identity(&self, name: &str) {
        let file = std::fs::File::options().read(true).write(true).open(&self.pool).unwrap();
        let mapped: Arc<dyn Memory> = Arc::new(Mapped::map(file, &MapOptions::default()).unwrap());
        let (pool, _) = Pool::open(Arc::clone(&mapped), BOOT).unwrap();
        let tag = pool.tag(self.path(name).to_str().unwrap()).unwrap();
        let mut attributes = tag.attributes;
        attributes[24..].fill(0);
        let change = TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents };
        let tag = pool.change_tag(&tag, &change, |_| Ok(())).unwrap();
        let words = Stream::new(&tag.extents, Role::MAP).locate(0).unwrap().at;
        [256, 320].into_iter().for_each(|at| mapped.store_word(words + at, 0));
        pool.close().unwrap();
    }

    /// Returns the two versions in the header of database `name`.
    pub(crate) fn versions(&self, name: &str) -> [u8; 2] {
        let bytes = std::fs::read(self.path(name)).unwrap();
        [bytes[18], bytes[19]]
    }
}
