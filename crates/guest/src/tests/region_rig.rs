//! A guest in a pool on tmpfs, whose region programs of this process and of others use.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Disk;
use ferrite_memory::{Guard, MapOptions, Mapped, Memory, TrapRegion};
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};

use crate::guest_region::RegionFaults;
use crate::guest_share::SetBudget;
use crate::{GuestError, GuestShare, GuestSpec};

pub(crate) const PAGES: u64 = 2048;
const BOOT: [u8; 16] = [7; 16];

/// Returns true if this machine reports faults to this process.
pub(crate) fn has_regions() -> bool {
    match TrapRegion::new(PAGE) {
        Err(ferrite_memory::Error::Unsupported(why)) => {
            println!("skipped: {why}");
            false
        }
        made => made.map(|_| true).expect("a region"),
    }
}

/// A folder on tmpfs with a pool. The guest has four times as many pages as frames.
pub(crate) struct RegionFolder {
    folder: tempfile::TempDir,
}

impl RegionFolder {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let new = Self { folder };
        let file = File::options().read(true).write(true).create_new(true).open(new.pool_path()).expect("a file");
        file.set_len(POOL_BYTES_MIN + 3 * CHUNK).expect("sized");
        let memory = map(&new.pool_path());
        Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("a new pool");
        new
    }

    /// Creates the guest, whose disk is `disk`.
    pub fn create(&self, disk: &Arc<dyn Disk>) {
        let spec = GuestSpec {
            name: "g".into(),
            size: PAGES * PAGE,
            pm_bytes: CHUNK,
            share: GuestShare::fixed(1),
            budget: SetBudget::default(),
            address: "disk".into(),
            identity: [9; 16],
            nonce: 3,
        };
        spec.create(&open_pool(&self.pool_path()), disk).expect("created");
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn pool_path(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    /// Opens the guest with a region of at most `mappings_max` mappings. Nothing answers its faults yet.
    pub fn open(&self, disk: Arc<dyn Disk>, mappings_max: usize) -> Result<RegionFaults, GuestError> {
        RegionFaults::open(open_pool(&self.pool_path()).hold("g")?, |_| Ok(disk), || 4, None, mappings_max)
    }
}

fn map(path: &Path) -> Arc<dyn Memory> {
    let file = File::options().read(true).write(true).open(path).expect("a file");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("mapped");
    assert!(memory.fence_is_durable(), "on tmpfs");
    Arc::new(memory)
}

pub(crate) fn open_pool(path: &Path) -> Arc<Pool> {
    Arc::new(Pool::open(map(path), BOOT).expect("it opens").0)
}

/// Stores `value` to the first word of `page`, and its complement to the last: a program's stores.
pub(crate) fn store(region: &TrapRegion, page: u64, value: u64) {
    region.word(page * PAGE).store(value, Ordering::Release);
    region.word((page + 1) * PAGE - 8).store(!value, Ordering::Release);
}

/// Returns the first word of `page`, by a program's loads.
pub(crate) fn load(region: &TrapRegion, page: u64) -> u64 {
    region.word(page * PAGE).load(Ordering::Acquire)
}

/// Ends the thread that answers, also if the program panics.
pub(crate) struct StopAtEnd<'a>(pub &'a TrapRegion);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
