//! `ferrite pool`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ferrite_memory::{make_pool_file, set_len};
use ferrite_owner::PoolReport;
use ferrite_owner::access::PoolHolder;
use ferrite_owner::services::PoolRequest;
use ferrite_pool::layout::POOL_BYTES_MIN;
use ferrite_pool::{Format, Lock, MayLose, ensure_may_be_lost};

use super::{WholePool, image, print, upkeep};
use crate::bar::Bar;
use crate::command_pool::{self, CommandPool};
use crate::host;
use crate::keeper::show_kept;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::size;
use crate::stop;
use crate::survival::Trust;

/// Pools: make one, look at it, check it, back it up
#[derive(Subcommand)]
pub enum Pool {
    /// Make a pool in a new file, or in a file or DAX device that is there and holds only zeros
    ///
    /// On an NVDIMM with DAX it survives power loss; on /dev/shm or hugetlbfs the end of the process; in a file on a
    /// disk what was flushed survives all. It says which of them, and why.
    Create(Create),
    /// Tell what a pool is, what it survives, and how its space is used
    Info(WholePool),
    /// Check everything in a pool against everything else
    Check(upkeep::Check),
    /// Write a pool's content to an image file, also while it is served; the file appears whole or not at all, and
    /// takes the place of one that is no pool, no image of another pool and no later image of this one
    Backup(image::Backup),
    /// Make a pool from an image; it may be larger than the one that was backed up
    ///
    /// Interrupted, run it again: it finishes. It is the same pool as the one that was backed up: do not serve both.
    ///
    /// All that is in the pool goes back to the moment of the image: files, disks, objects, logs. That is wrong for a
    /// database that keeps its data elsewhere and its log in the pool's files: restore the database's own backup. A
    /// SQLite database whose file went on since then is refused when it is opened, and nothing of it is lost;
    /// docs/ties.md says the ways out.
    Restore(image::Restore),
    /// Let a pool take the space that its file or device has become larger by; --size makes a file larger
    Grow(upkeep::Grow),
    /// Make a pool's tags contiguous and its free space too
    Defrag(WholePool),
    /// Tell how often its memory was written; its owner counts if it was started with --wear
    Wear(upkeep::Wear),
}

#[derive(Args)]
pub struct Create {
    /// The file to make it in
    pool: PathBuf,
    /// Its size, such as 64M or 1G, in powers of 1024; all of it for an existing file or device
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Lose what the file or device holds: the bytes that it has, as the refusal prints them
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    #[command(flatten)]
    trust: Trust,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Pool {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::Info(WholePool { at, json }) => report(&at.pool.path()?, json),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
            Self::Grow(grow) => grow.run(),
            Self::Defrag(defrag) => upkeep::defrag(&defrag),
            Self::Wear(wear) => wear.run(),
        }
    }
}

impl Create {
    fn run(self) -> Outcome {
        let Self { pool, size, lose, trust, json } = self;
        size.map_or(Ok(()), check_size)?;
        if pool.exists() {
            let lock = ours(&pool)?;
            ensure_room(&lock, size)?;
            may_be_lost(&lock, lose, None)?;
            resize(&lock, size)?;
            format(&lock, &pool)?;
        } else {
            let bytes = size.ok_or_else(|| Failure::Usage("a new pool needs a --size, such as --size 1G".into()))?;
            make_pool_file(&pool, bytes).map_err(|error| format!("making {}: {error}", pool.display()))?;
            ours(&pool).and_then(|lock| format(&lock, &pool)).inspect_err(|_| _ = std::fs::remove_file(&pool))?;
            host::persist_name(&pool)?;
        }
        if trust.trust_medium.is_some() {
            let medium = MediumArguments::trusting(trust);
            CommandPool::own(ours(&pool)?, &medium)?.close()?;
        }
        report(&pool, json)
    }
}

/// Refuses a size that is too small for a pool, before the command makes or changes anything.
pub fn check_size(bytes: u64) -> Outcome {
    if bytes < POOL_BYTES_MIN {
        return Err(Failure::Usage(format!("a pool has {} at least", size::show(POOL_BYTES_MIN))));
    }
    Ok(())
}

/// Refuses a file that is too small for a pool, if the user gave no size.
fn ensure_room(lock: &Lock, size: Option<u64>) -> Outcome {
    let found = lock.file().metadata()?;
    if size.is_some() || !found.is_file() || found.len() >= POOL_BYTES_MIN {
        return Ok(());
    }
    let (path, has, least) = (lock.path().display(), size::show(found.len()), size::show(POOL_BYTES_MIN));
    Err(Failure::Usage(format!("{path} has {has}, and a pool {least} at least: give a --size, such as --size 1G")))
}

/// If `lock` holds a regular file, sets its length to the requested size.
fn resize(lock: &Lock, size: Option<u64>) -> Outcome {
    match size {
        Some(bytes) if lock.file().metadata()?.is_file() => {
            Ok(set_len(lock.file(), bytes).map_err(|error| format!("sizing {}: {error}", lock.path().display()))?)
        }
        _ => Ok(()),
    }
}

/// Returns true if a new pool in the file or device of `lock` destroys content, and `lose` states the bytes of that
/// content. A half-done restore of `image` is not such content.
pub fn may_be_lost(lock: &Lock, lose: Option<u64>, image: Option<[u8; 16]>) -> Outcome<bool> {
    stop::watch()?;
    let bar = Bar::new();
    let may = MayLose { lose, image, boot_id: host::boot_id()? };
    Ok(ensure_may_be_lost(lock, &may, &mut |it| bar.show(&it))?)
}

/// Makes a pool, to be called `path`, in the file that `lock` holds, and destroys the file's content. Prints a warning
/// if the host has less space than the pool may need.
pub fn format(lock: &Lock, path: &Path) -> Outcome {
    let medium = MediumArguments::default().map(lock)?;
    ferrite_pool::Pool::create(&*medium.memory, &Format { uuid: host::random_uuid()?, boot_id: host::boot_id()? })?;
    let room = medium.mapped.map(|mapped| mapped.host_room()).transpose()?.flatten();
    if let Some((lacked, left)) = room.filter(|(lacked, left)| lacked > left) {
        let (path, lacked, left) = (path.display(), size::show(lacked), size::show(left));
        remark!(
            "{path} may come to take {lacked} more of its file system, which has {left} left: beyond that there is no space"
        );
    }
    Ok(())
}

/// Returns the exclusive lock on the pool at `path`.
pub fn ours(path: &Path) -> Outcome<Lock> {
    match command_pool::find(path)? {
        PoolHolder::Ours(lock) => Ok(lock),
        PoolHolder::Theirs(_, holder) => Err(format!("{} is {holder}: end that first", path.display()).into()),
    }
}

fn report(pool: &Path, json: bool) -> Outcome {
    stop::watch()?;
    let mut command_pool = CommandPool::new(pool)?;
    let answer = command_pool.ask::<PoolReport>(PoolRequest::Info, None);
    let owner_pid = command_pool.owner_pid();
    let answer = and_then_cleared(answer, command_pool.close())?;
    print(json, &PoolReport { owner_pid, ..answer }, show)
}

fn show(pool: &PoolReport) -> String {
    let (usage, bytes) = (&pool.usage, size::show);
    let advice = pool.survives.advice().map(|advice| format!("  {advice}\n")).unwrap_or_default();
    let served = pool.owner_pid.map(|pid| format!("  served by process {pid}\n")).unwrap_or_default();
    let kept = pool.kept.as_ref().map(|kept| format!("  kept: {}\n", show_kept(kept))).unwrap_or_default();
    format!(
        "{}, format {}\n  {}\n{advice}  {} of {} free, {} tags\n  superpages {}, normal pages {}, the pool's own tables {}\n{served}{kept}  {}\n",
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
