//! Durable writes of 4 KiB, measured by a file and by a pool that have no name, so that no signal leaves them behind.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_block::{BlockDisk, DiskOptions, DiskSpec};
use ferrite_disk::{Access, Disk};
use ferrite_memory::{Backing, Guard, MapOptions, Mapped, Memory, make_pool_file};
use ferrite_owner::SurvivalReport;
use ferrite_owner::paths::in_line;
use ferrite_pool::{Format, Pool};
use serde::Serialize;

use crate::host;
use crate::outcome::Outcome;
use crate::stop;

/// Bytes of one write.
const WRITE_BYTES: u64 = 4096;
/// Bytes of the area that the writes go through, again and again.
const AREA_BYTES: u64 = 16 << 20;
/// Bytes of the pool.
const POOL_BYTES: u64 = 64 << 20;
/// The name of the pool's disk.
const DISK_NAME: &str = "doctor";

/// The durations of durable writes of one kind.
#[derive(Debug, Serialize)]
pub struct DurableWrites {
    /// The kind of write, for people.
    way: String,
    /// The folder of the file or pool.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    dir: PathBuf,
    /// The number of writes.
    writes: u64,
    /// The median duration in microseconds.
    median_us: f64,
    /// The duration that one write in a hundred exceeds, in microseconds.
    p99_us: f64,
    /// Writes per second.
    writes_per_second: f64,
}

impl DurableWrites {
    /// Calls `write` with the places of an area, which has all its space, until `time` is over.
    fn of(way: String, dir: &Path, time: Duration, mut write: impl FnMut(u64) -> Outcome) -> Outcome<Self> {
        let mut durations = Vec::new();
        let start = Instant::now();
        let places = (0..AREA_BYTES).step_by(WRITE_BYTES as usize).cycle();
        for at in places {
            stop::go_on()?;
            let before = Instant::now();
            if before.duration_since(start) >= time && !durations.is_empty() {
                break;
            }
            write(at)?;
            durations.push(before.elapsed());
        }
        Ok(Self::from_durations(way, dir, durations, start.elapsed()))
    }

    fn from_durations(way: String, dir: &Path, mut durations: Vec<Duration>, all: Duration) -> Self {
        durations.sort_unstable();
        let at = |percent: usize| durations[(durations.len() - 1) * percent / 100].as_nanos() as f64 / 1e3;
        Self {
            way,
            dir: dir.into(),
            writes: durations.len() as u64,
            median_us: at(50),
            p99_us: at(99),
            writes_per_second: durations.len() as f64 / all.as_secs_f64(),
        }
    }

    /// Returns the writes as a line.
    pub fn show(&self) -> String {
        let Self { way, median_us, p99_us, writes_per_second, .. } = self;
        let what = format!("{way} in {}", in_line(&self.dir));
        format!("  {what:<44} {median_us:>7.1} us {p99_us:>7.1} us {writes_per_second:>10.0}\n")
    }
}

/// Creates the file `name` in `dir` by `create`, and removes its name at once.
fn unnamed(dir: &Path, create: impl FnOnce(&Path) -> std::io::Result<()>) -> Outcome<File> {
    let path = dir.join(format!(".ferrite-doctor-{}", std::process::id()));
    let opened = create(&path).and_then(|()| File::options().read(true).write(true).open(&path));
    let removed = fs::remove_file(&path);
    let file = opened.map_err(|error| format!("making a file in {}: {error}", in_line(dir)))?;
    removed.map_err(|error| format!("removing {}: {error}", in_line(&path)))?;
    Ok(file)
}

/// Measures write and fsync in a file in `dir` for `time`.
pub fn fsync(dir: &Path, time: Duration) -> Outcome<DurableWrites> {
    let writing = |error| format!("writing a file in {}: {error}", in_line(dir));
    let file = unnamed(dir, |path| File::create_new(path).map(drop))?;
    file.write_all_at(&vec![1; AREA_BYTES as usize], 0).and_then(|()| file.sync_all()).map_err(writing)?;
    let page = [2; WRITE_BYTES as usize];
    DurableWrites::of("write and fsync".into(), dir, time, |at| {
        Ok(file.write_all_at(&page, at).and_then(|()| file.sync_data()).map_err(writing)?)
    })
}

/// A pool with one disk, in a file without a name.
pub struct ScratchPool {
    dir: PathBuf,
    mapped: Arc<Mapped>,
    pool: Arc<Pool>,
}

impl ScratchPool {
    /// Creates the pool in the folder `dir`.
    pub fn create(dir: &Path) -> Outcome<Self> {
        let making = |error: &dyn std::fmt::Display| format!("making a pool in {}: {error}", in_line(dir));
        let file = unnamed(dir, |path| make_pool_file(path, POOL_BYTES))?;
        let options = MapOptions { guard: Guard::best(), name: dir.display().to_string(), ..MapOptions::default() };
        let mapped = Arc::new(Mapped::map(file, &options).map_err(|error| making(&error))?);
        let boot_id = host::boot_id()?;
        let made = Pool::create(&*mapped, &Format { uuid: host::random_uuid()?, boot_id });
        let opened = made.and_then(|()| Pool::open(mapped.clone(), boot_id));
        let pool = Arc::new(opened.map_err(|error| making(&error))?.0);
        let spec = DiskSpec { size: AREA_BYTES, sector_bytes: 4096, thin: false, checksum: false };
        ferrite_block::create(&pool, DISK_NAME, &spec).map_err(|error| making(&error))?;
        Ok(Self { dir: dir.into(), mapped, pool })
    }

    /// Returns the storage behind the pool.
    pub fn backing(&self) -> Backing {
        self.mapped.backing()
    }

    /// Returns the failures that the pool survives.
    pub fn survives(&self) -> SurvivalReport {
        SurvivalReport::of(&self.pool)
    }

    /// Measures writes to the pool's disk for `time`. Each write is flushed if only flushed data is durable.
    pub fn measure(&self, time: Duration) -> Outcome<DurableWrites> {
        let writing = |error: ferrite_memory::Error| format!("writing to a pool in {}: {error}", in_line(&self.dir));
        let disk = BlockDisk::open(Arc::clone(&self.pool), DISK_NAME, DiskOptions::default())?;
        let page = [3; WRITE_BYTES as usize];
        let area = (0..AREA_BYTES).step_by(WRITE_BYTES as usize);
        area.into_iter().try_for_each(|at| disk.write(at, &page, Access::default())).map_err(writing)?;
        disk.flush().map_err(writing)?;
        let must_flush = !self.mapped.fence_is_durable();
        let way = if must_flush { "a pool, write and flush" } else { "a pool, write" };
        DurableWrites::of(way.into(), &self.dir, time, |at| {
            let written = disk.write(at, &page, Access::default());
            let done = if must_flush { written.and_then(|()| disk.flush()) } else { written };
            Ok(done.map_err(writing)?)
        })
    }
}
