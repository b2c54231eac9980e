//! A file system whose owner listens, and clients of it in the same process: they share nothing but what clients share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::support::{BOOT, NAME};
use crate::client::{FileLease, FsSession, Quiet};
use crate::share::ClientListener;
use crate::share::layout::request::LeaseAccess;
use crate::store::tier_members::TierOpening;
use crate::{FileSystem, FsClock, FsOptions, FsSpec, Ino, Time};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

/// What lets clients in.
pub struct House {
    _folder: tempfile::TempDir,
    pub pool_file: PathBuf,
    pub fs: Arc<FileSystem>,
    _door: ClientListener,
}

/// A time that stands still, later than all times of the owner's clock.
pub fn late() -> FsClock {
    Arc::new(|| Time(9_000_000_000))
}

impl House {
    pub fn new() -> Self {
        let options =
            MapOptions { guard: Guard::None, read_only: false, name: "house".into(), ..MapOptions::default() };
        let memory = Arc::new(Mapped::anonymous(48 * CHUNK, &options).expect("memory"));
        // Another one in each: this one process has all shared states open, and is searched for a client's.
        static HOUSES: AtomicU8 = AtomicU8::new(0);
        let uuid = [HOUSES.fetch_add(1, Ordering::Relaxed); 16];
        Pool::create(&memory, &Format { uuid, boot_id: BOOT }).expect("a new pool");
        let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
        let spec =
            FsSpec { super_threshold_bytes: Some(CHUNK), uid: 0, gid: 0, mode: 0o755, hash_seed: 5, now: Time(1) };
        FileSystem::create(&pool, NAME, &spec).expect("room");
        Self::of(pool, tempfile::tempdir().expect("a folder"))
    }

    fn of(pool: Arc<Pool>, folder: tempfile::TempDir) -> Self {
        Self::tiered(pool, folder, &TierOpening { open: &|_| Err("there is none".into()), nonce: 0 })
    }

    /// A house whose file system has a tier.
    pub fn with_tier() -> Self {
        let Self { fs, _folder: folder, _door: door, .. } = Self::new();
        let pool = Arc::clone(fs.pool());
        drop((door, fs));
        let ssd = super::tiers::ssd(32 << 20);
        FileSystem::add_tier(&pool, NAME, std::slice::from_ref(&ssd), None, 5).expect("added");
        Self::tiered(pool, folder, &TierOpening { open: &|_| Ok(Arc::clone(&ssd.disk)), nonce: 6 })
    }

    fn tiered(pool: Arc<Pool>, folder: tempfile::TempDir, opening: &TierOpening<'_>) -> Self {
        let options = FsOptions { data: None, read_only: false, clock: Arc::new(|| Time(5_000_000_000)) };
        let fs = FileSystem::open_tiered(pool, NAME, options, opening).expect("it opens");
        let pool_file = folder.path().join("pool");
        std::fs::File::create(&pool_file).expect("a file");
        let door = ClientListener::open(&fs, &pool_file, BOOT).expect("nobody else has it");
        Self { _folder: folder, pool_file, fs, _door: door }
    }

    /// The same file system served by another owner, after this one was killed without notice.
    pub fn reopened(self) -> Self {
        let pool = Arc::clone(self.fs.pool());
        drop_owner_liveness(&self.fs);
        let Self { _folder: folder, fs, _door: door, .. } = self;
        drop((door, fs));
        Self::of(pool, folder)
    }

    pub fn client(&self) -> Arc<FsSession> {
        FsSession::connect(&self.pool_file, NAME, late()).expect("let in")
    }

    /// A client with a function that blocks signals.
    pub fn client_quiet(&self, quiet: Quiet) -> Arc<FsSession> {
        FsSession::connect_quiet(&self.pool_file, NAME, late(), quiet).expect("let in")
    }

    pub fn file(&self, name: &str, content: &[u8]) -> Ino {
        let ino =
            self.fs.create_file(Ino::ROOT, name.as_bytes(), &super::support::new(crate::FileKind::File)).expect("made");
        self.fs.write(ino.ino, 0, content).expect("room");
        ino.ino
    }
}

/// A lease to append to `ino`, with what the first appends want in the same call.
pub fn to_append(client: &Arc<FsSession>, ino: Ino) -> FileLease {
    client.lease_with(ino, LeaseAccess::Append, FileLease::FIRST_AHEAD_BYTES, &|| ()).expect("leased")
}

/// Ends the owner's liveness, as the kernel does when the process is killed.
pub fn drop_owner_liveness(fs: &FileSystem) {
    let mut table = fs.sessions.table.lock();
    table.liveness = None;
    table.sessions.clear();
}
