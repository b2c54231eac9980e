//! Images of pools: `ferrite pool backup|restore`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_memory::{make_pool_file, set_len};
use ferrite_owner::PoolMemory;
use ferrite_owner::services::{BackupOutside, BackupReport, PoolRequest};
use ferrite_pool::{Lock, backup, show_uuid};
use serde::Serialize;

use super::pool::{may_be_lost, ours};
use super::print;
use crate::bar::Bar;
use crate::command_pool;
use crate::host;
use crate::host::absolute;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;
use crate::stop;

#[derive(Args)]
pub struct Backup {
    #[command(flatten)]
    at: InPool<BackupWords>,
    /// Copy what the SSDs of file systems have, too: each SSD to a file IMAGE.NAME.ssdN
    #[arg(long, conflicts_with = "without_ssd")]
    with_ssd: bool,
    /// Leave out what is on the SSDs of file systems only: a restored pool needs the SSDs as they are now
    #[arg(long)]
    without_ssd: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct BackupWords {
    /// The image to write
    image: PathBuf,
}

#[derive(Args)]
pub struct Restore {
    /// The image, a file or a block device
    image: PathBuf,
    /// The pool to make from it
    pool: PathBuf,
    /// Size of the new pool's file [default: as it was]; what is there already is made larger where it must be, and
    /// never smaller
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Lose what the file or device holds: the bytes that it has, as the refusal prints them
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Writes the image and prints a report.
    pub fn run(self) -> Outcome {
        let Self { at: InPool { pool, words: BackupWords { image } }, with_ssd, without_ssd, json } = self;
        if image == Path::new("-") {
            let why = "a backup is a file that appears whole or not at all: name one, `./-` if it is to be called so";
            return Err(Failure::Usage(why.into()));
        }
        let to = absolute(&image)?;
        let outside = match (with_ssd, without_ssd) {
            (true, _) => BackupOutside::Copy,
            (_, true) => BackupOutside::Leave,
            _ => BackupOutside::Refuse,
        };
        let request = PoolRequest::Backup { to, now: false, image: None, outside };
        let report: BackupReport = command_pool::ask(&pool.path()?, request, None)?;
        let report = ImageReport { ssds: report.outside, ..ImageReport::from(&report.image) };
        print(json, &report, |it| show_report(&image, it))
    }
}

impl Restore {
    /// Makes the pool from the image and prints a report.
    pub fn run(self) -> Outcome {
        let Self { image, pool, size, lose, json } = self;
        stop::watch()?;
        let bar = Bar::new();
        // The command verifies the whole image before it makes anything.
        backup::open_image(&image)?;
        let found = backup::verify_image(&image, &mut |it| bar.show(&it));
        let found = found.map_err(|error| format!("{}: {error}", image.display()))?;
        let wanted = size.unwrap_or(found.pool_bytes);
        if wanted < found.pool_bytes {
            let (needed, typed) = (size::show(found.pool_bytes), size::written(found.pool_bytes));
            return Err(Failure::Usage(format!("the image is of a pool of {needed}: --size {typed} at least")));
        }
        let Place { lock, is_new, overwrite } = place(&image, found.image, &pool, wanted, lose)?;
        let restored = MediumArguments::default().map(&lock).and_then(|medium: PoolMemory| {
            let memory = &*medium.memory;
            remark!("pool {}: {}", pool.display(), medium.line(&memory.survival()));
            let restored =
                backup::restore_from(&image, memory, backup::RestoreOptions { overwrite }, &mut |it| bar.show(&it));
            Ok(restored.map_err(|error| format!("{}: {error}", pool.display()))?)
        });
        // If the file existed before, an unfinished restore remains in it.
        let summary = restored.inspect_err(|_| _ = is_new.then(|| fs::remove_file(&pool)))?;
        host::persist_name(&pool)?;
        drop(bar);
        print(json, &ImageReport::from(&summary), |it| show_report(&pool, it))
    }
}

/// The target of a restore.
struct Place {
    lock: Lock,
    /// True if this restore made the file.
    is_new: bool,
    /// True if the restore destroys content, to which the user agreed.
    overwrite: bool,
}

/// Makes or finds a place of `bytes` for restoring the image `uuid`, which lies in the file `image`.
fn place(image: &Path, uuid: [u8; 16], pool: &Path, bytes: u64, lose: Option<u64>) -> Outcome<Place> {
    match make_pool_file(pool, bytes) {
        Ok(()) => return Ok(Place { lock: ours(pool)?, is_new: true, overwrite: false }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("making {}: {error}", pool.display()).into()),
    }
    let lock = ours(pool)?;
    let (there, source) = (lock.file().metadata()?, fs::metadata(image)?);
    if (there.dev(), there.ino()) == (source.dev(), source.ino()) {
        return Err(format!("{} is the image itself: name another file for the pool", pool.display()).into());
    }
    let overwrite = may_be_lost(&lock, lose, Some(uuid))?;
    if there.is_file() && there.len() < bytes {
        set_len(lock.file(), bytes).map_err(|error| format!("sizing {}: {error}", pool.display()))?;
    }
    Ok(Place { lock, is_new: false, overwrite })
}

/// The content of an image, for people and programs.
#[derive(Serialize)]
struct ImageReport {
    /// The id of the image.
    image: String,
    /// The id of its pool.
    pool: String,
    /// Bytes of that pool.
    pool_bytes: u64,
    /// Bytes of the pool that were in use.
    used_bytes: u64,
    /// Bytes of the image.
    image_bytes: u64,
    /// The copies of SSDs beside the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ssds: Vec<PathBuf>,
}

impl From<&backup::ImageSummary> for ImageReport {
    fn from(it: &backup::ImageSummary) -> Self {
        let (image, pool) = (show_uuid(&it.image), show_uuid(&it.pool));
        Self {
            image,
            pool,
            pool_bytes: it.pool_bytes,
            used_bytes: it.used_bytes,
            image_bytes: it.image_bytes,
            ssds: Vec::new(),
        }
    }
}

fn show_report(path: &Path, it: &ImageReport) -> String {
    let (used, pool, image) = (size::show(it.used_bytes), size::show(it.pool_bytes), size::show(it.image_bytes));
    let copies: String = it.ssds.iter().map(|ssd| format!("{}: a copy of an SSD\n", ssd.display())).collect();
    format!("{}: {used} in use of a pool of {pool}; the image has {image}\n{copies}", path.display())
}
