//! SQLite's own shell with this VFS: what it promises, through kills, moves, full pools and other programs.

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
mod unnamed;

use std::path::PathBuf;

use ferrite_medium::{MapOptions, Mapped};
use ferrite_pool::{Format, Pool};
use tempfile::TempDir;

/// A folder with a database's place and a pool.
pub(crate) struct Place {
    folder: TempDir,
    pool: PathBuf,
}

impl Place {
    /// On tmpfs, where a completed write is durable.
    pub(crate) fn new() -> Self {
        Self::of("/dev/shm", 32 << 20)
    }

    /// With a pool of so many bytes under `place`.
    pub(crate) fn of(place: &str, pool_bytes: u64) -> Self {
        let folder = TempDir::new_in(place).unwrap();
        let pool = folder.path().join("pool");
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&pool).unwrap();
        file.set_len(pool_bytes).unwrap();
        let mapped = Mapped::map(file, &MapOptions::default()).unwrap();
        Pool::create(&mapped, &Format { uuid: *b"sqlite test pool", boot_id: [0; 16] }).unwrap();
        Self { folder, pool }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a shell opens: the database `name`, by this VFS.
    pub(crate) fn uri(&self, name: &str) -> String {
        format!("file:{}?vfs=ferrite&pool={}", self.path(name).display(), self.pool.display())
    }

    /// The two versions in the header of database `name`.
    pub(crate) fn versions(&self, name: &str) -> [u8; 2] {
        let bytes = std::fs::read(self.path(name)).unwrap();
        [bytes[18], bytes[19]]
    }
}
