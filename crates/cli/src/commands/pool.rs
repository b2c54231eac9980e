//! `ferrite pool`.

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use ferrite_medium::{Guard, Memory};
use ferrite_pool::layout::POOL_BYTES_MIN;
use ferrite_pool::owner::{Claim, Lock, claim};
use ferrite_pool::{Format, backup, check};

use super::print;
use crate::bar::Bar;
use crate::engine::{absolute, map, tag_owners};
use crate::host;
use crate::outcome::{Failure, Outcome};
use crate::reach::{self, Reach};
use crate::request::{PoolReport, Request};
use crate::size;
use crate::stop;

/// Pools: make one, look at it, check it, back it up
#[derive(Subcommand)]
pub enum Pool {
    /// Make a pool in a new file, or in an existing file or DAX device with --force
    ///
    /// On a DAX device or file system it survives power loss; on /dev/shm or hugetlbfs the end of the process; in an
    /// ordinary file what was flushed survives all.
    Create(Create),
    /// Tell what a pool is, what it survives, and how its space is used
    Info(Info),
    /// Check everything in a pool against everything else
    Check(Check),
    /// Write a pool's content to an image file, also while it is served; the file appears whole or not at all
    Backup(Backup),
    /// Make a pool from an image; it may be larger than the one that was backed up
    ///
    /// Interrupted, run it again: it finishes. It is the same pool as the one that was backed up: do not serve both.
    Restore(Restore),
}

#[derive(Args)]
pub struct Create {
    /// The file to make it in
    pool: PathBuf,
    /// Its size, such as 64M or 1G; all of it for an existing file or device
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Use an existing file or device; what it holds is lost
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Info {
    /// The pool's file
    pool: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Check {
    /// The pool's file
    pool: PathBuf,
    /// Repair what has one right answer, and say what was lost otherwise
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Backup {
    /// The pool's file
    pool: PathBuf,
    /// The image to write
    image: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Restore {
    /// The image
    image: PathBuf,
    /// The pool to make from it
    pool: PathBuf,
    /// Size of the new pool's file [default: as it was]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Restore over what is there, which is lost
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Pool {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::Info(info) => info.run(),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
        }
    }
}

impl Create {
    fn run(self) -> Outcome {
        let Self { pool, size, force, json } = self;
        let made = File::options().write(true).create_new(true).open(&pool);
        let fresh = match made {
            Ok(file) => {
                let Some(bytes) = size else {
                    let _ = std::fs::remove_file(&pool);
                    return Err(Failure::Usage("a new pool needs a --size, such as --size 1G".into()));
                };
                file.set_len(bytes).map_err(|error| format!("sizing {}: {error}", pool.display()))?;
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(format!("making {}: {error}", pool.display()).into()),
        };
        let made = format(&pool, fresh, force, size);
        if made.is_err() && fresh {
            let _ = std::fs::remove_file(&pool);
        }
        made?;
        report(&pool, json)
    }
}

/// Makes the file at `path` a pool.
pub fn format(path: &Path, fresh: bool, force: bool, size: Option<u64>) -> Outcome {
    let lock = ours(path)?;
    let length = lock.file().metadata()?.len();
    if let Some(size) =
        size.filter(|size| !fresh && *size != length && lock.file().metadata().is_ok_and(|it| it.is_file()))
    {
        if !force {
            return Err(exists(path));
        }
        lock.file().set_len(size)?;
    }
    if size.is_some_and(|size| size < POOL_BYTES_MIN) {
        return Err(Failure::Usage(format!("a pool has {} at least", size::show(POOL_BYTES_MIN))));
    }
    let (memory, _) = map(&lock, Guard::best())?;
    if !fresh && !force {
        return Err(exists(path));
    }
    Ok(ferrite_pool::Pool::create(&*memory, &Format { uuid: host::random_uuid()?, boot_id: host::boot_id()? })?)
}

fn exists(path: &Path) -> Failure {
    Failure::Failed(format!("{} exists already: --force makes a pool of it, and what it holds is lost", path.display()))
}

fn ours(path: &Path) -> Outcome<Lock> {
    match claim(path)? {
        Claim::Ours(lock) => Ok(lock),
        Claim::Held(holder) => Err(format!("{} is {holder}: end that first", path.display()).into()),
    }
}

fn report(pool: &Path, json: bool) -> Outcome {
    stop::watch()?;
    let mut reach = Reach::new(pool)?;
    let answer = reach.ask::<PoolReport>(Request::PoolInfo, None);
    let owner_pid = reach.owner_pid();
    reach.close()?;
    print(json, &PoolReport { owner_pid, ..answer? }, show)
}

fn show(pool: &PoolReport) -> String {
    let (usage, bytes) = (&pool.usage, size::show);
    let served = pool.owner_pid.map(|pid| format!("  served by process {pid}\n")).unwrap_or_default();
    format!(
        "{}, format {}\n  {}\n  {} of {} free, {} tags\n  superpages {}, normal pages {}, the pool's own tables {}\n{served}  {}\n",
        pool.path.display(),
        pool.version,
        pool.medium,
        bytes(usage.free_bytes),
        bytes(usage.total_bytes),
        pool.tags,
        bytes(usage.super_bytes),
        bytes(usage.normal_bytes),
        bytes(usage.meta_bytes),
        pool.uuid
    )
}

impl Info {
    fn run(self) -> Outcome {
        report(&self.pool, self.json)
    }
}

impl Check {
    fn run(self) -> Outcome {
        let Self { pool, repair, json } = self;
        stop::watch()?;
        let report = match claim(&pool)? {
            Claim::Held(holder) if repair => {
                return Err(format!(
                    "{} is {holder}: a repair needs the pool alone, so end that first",
                    pool.display()
                )
                .into());
            }
            Claim::Held(_) => reach::ask(&pool, Request::PoolCheck, None)?,
            Claim::Ours(lock) => check_closed(&lock, repair)?,
        };
        print(json, &report, |report| show_findings(&pool, report))?;
        if report.is_sound() { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// Checks the pool that `lock` holds, without opening it; opens it to repair.
fn check_closed(lock: &Lock, repair: bool) -> Outcome<check::Report> {
    let (memory, line) = map(lock, Guard::best())?;
    eprintln!("pool {}: {line}", lock.path().display());
    let memory: Arc<dyn Memory> = memory;
    let bar = Bar::new();
    let mut watch = |it| _ = bar.show(&it);
    if repair {
        return Ok(check::repair(&memory, &tag_owners(), &mut watch)?);
    }
    Ok(check::check(&memory, &tag_owners(), &mut watch))
}

fn show_findings(path: &Path, report: &check::Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let place = finding.at.map(|at| format!(" (byte {at:#x})")).unwrap_or_default();
        let tag = finding.tag.as_ref().map(|tag| format!("{tag:?}: ")).unwrap_or_default();
        text += &format!("{:?}: {tag}{}{place}\n", finding.severity, finding.what);
        text += &finding.repaired.as_ref().map(|done| format!("  repaired: {done}\n")).unwrap_or_default();
    }
    let sum =
        if report.is_sound() { "sound" } else { "NOT SOUND: see above; --repair mends what has one right answer" };
    text + &format!("{}: {} tags, {} free: {sum}\n", path.display(), report.tags, size::show(report.usage.free_bytes))
}

impl Backup {
    fn run(self) -> Outcome {
        let to = absolute(&self.image)?;
        let summary: backup::Summary = reach::ask(&self.pool, Request::PoolBackup { to }, None)?;
        print(self.json, &summary, |it| show_summary(&self.image, it))
    }
}

impl Restore {
    fn run(self) -> Outcome {
        let Self { image, pool, size, force, json } = self;
        stop::watch()?;
        let bar = Bar::new();
        // All of it, before anything is made.
        let mut input =
            BufReader::new(File::open(&image).map_err(|error| format!("opening {}: {error}", image.display()))?);
        let found = backup::verify(&mut input, &mut |it| bar.show(&it))?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&pool);
        let file = file.map_err(|error| format!("opening {}: {error}", pool.display()))?;
        let wanted = size.unwrap_or(found.pool_bytes);
        let lock = ours(&pool)?;
        if file.metadata()?.is_file() && file.metadata()?.len() < wanted {
            file.set_len(wanted)?;
        }
        let (memory, line) = map(&lock, Guard::best())?;
        eprintln!("pool {}: {line}", pool.display());
        let restored = backup::restore_from(&image, &*memory, backup::Restore { force }, &mut |it| bar.show(&it));
        let summary = restored.map_err(|error| format!("{}: {error} (--force)", pool.display()))?;
        drop(bar);
        print(json, &summary, |it| show_summary(&pool, it))
    }
}

fn show_summary(path: &Path, it: &backup::Summary) -> String {
    let (used, pool, image) = (size::show(it.used_bytes), size::show(it.pool_bytes), size::show(it.image_bytes));
    format!("{}: {used} in use of a pool of {pool}; the image has {image}\n", path.display())
}
