//! `ferrite fs`.

mod tier;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ferrite_daemon::filesystems::{FsReport, FsRequest, Mounting, Which};
use ferrite_daemon::mounts;
use ferrite_fs::DataMode;
use ferrite_owner::paths::in_line;
use ferrite_pool::layout::CHUNK;
use serde_json::Value;

use super::new_ssd::{NewSsd, new_ssd, with_files};
use super::{WholePool, print, print_line, upkeep};
use crate::command_pool::{self, CommandPool};
use crate::host::absolute;
use crate::medium::MediumArguments;
use crate::mount_notes;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;
use crate::stop::Stop;

/// The size of the largest file, in bytes.
const FILE_BYTES_MAX: u64 = 128 << 40;

/// File systems in a pool: make them, mount them, see how full they are
#[derive(Subcommand)]
pub enum Fs {
    /// Make an empty file system; durable when it returns
    ///
    /// It takes space from the pool as files are written and shares what is free with disks and other file systems.
    Create(Create),
    /// List the file systems
    List(WholePool),
    /// Remove a file system and all that is in it; refused while it is mounted
    Remove(InPool<FsName, true>),
    /// Mount a file system on a folder, until `unmount` or the end of the pool's owner
    ///
    /// Where no `ferrite up` owns the pool this command does, and runs until Ctrl-C or until nothing of it is used.
    Mount(Mount),
    /// Unmount a file system; refused while programs use it, or a bind mount of it is there
    Unmount(InPool<FsPlace>),
    /// SSDs that make a file system larger than its pool
    #[command(subcommand)]
    Tier(tier::Tier),
    /// Tell where a file system is mounted, how its data is kept, and how full it is
    Stat(Stat),
    /// Find what is wrong with a pool and everything in it: the same as `ferrite pool check`
    Check(upkeep::Check),
}

#[derive(Args)]
pub struct FsName {
    /// The file system
    name: String,
}

/// A file system by the folder that it is mounted on, or by its name in a pool.
#[derive(Args)]
pub struct FsPlace {
    /// The folder that the file system is mounted on, or its name
    #[arg(value_name = "DIR|NAME")]
    at: PathBuf,
}

/// Returns the pool of the file system at `place`, and the file system in that pool.
fn located(place: &InPool<FsPlace>) -> Outcome<(PathBuf, Which)> {
    let InPool { pool, words: FsPlace { at } } = place;
    if !pool.is_named()
        && let Some(seen) = mounts::seen_on(at)
    {
        return Ok(seen);
    }
    let is_path = at.components().count() > 1 || at.is_absolute() || at.exists();
    match at.to_str() {
        Some(name) if pool.is_named() || !is_path => Ok((pool.path()?, Which { name: name.into(), seen: None })),
        _ => Err(Failure::Usage(format!(
            "no file system of ferrite is mounted on {}: give that folder, or a pool and a name",
            at.display()
        ))),
    }
}

#[derive(Args)]
pub struct Stat {
    #[command(flatten)]
    fs: InPool<FsPlace>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    fs: InPool<FsName, true>,
    /// Move files of at least this size to pages of 2 MiB, in the background: random reads get faster. `never` for none
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = threshold)]
    super_threshold: Threshold,
    /// An SSD that cold pages go to; repeatable, up to 8. A file, which is made if it is missing and has a SIZE, a block
    /// device or an NBD export. Its content is lost
    #[arg(long, value_name = "SSD[=SIZE]", value_parser = new_ssd)]
    ssd: Vec<NewSsd>,
    /// Use SSDs that may hold data: the bytes that they have, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The file size at which files move to superpages, or `None` for never.
#[derive(Clone, Copy)]
struct Threshold(Option<u64>);

fn threshold(text: &str) -> Result<Threshold, String> {
    if text == "never" {
        return Ok(Threshold(None));
    }
    let bytes = size::parse(text)?;
    if !(CHUNK..=FILE_BYTES_MAX).contains(&bytes) {
        let (least, most) = (size::show(CHUNK), size::show(FILE_BYTES_MAX));
        return Err(format!("{least}, which is one such page, to {most}, which the largest file has, or never"));
    }
    Ok(Threshold(Some(bytes)))
}

/// How a file system is mounted.
#[derive(Args, Clone)]
pub struct MountArguments {
    /// The kernel holds writes back: near the speed of memory for every program, but durable only at fsync; closing
    /// a file writes it out, so many small files are made faster without
    #[arg(long)]
    cached: bool,
    /// When written data is durable: `sync` when the write returns, `atomic` and all or nothing too (a second fence;
    /// a store to a shared mapping takes back what others write to its page),
    /// `posix` at fsync [default: sync in memory, posix on a file]
    #[arg(long, value_name = "MODE", value_parser = data_mode)]
    data: Option<DataMode>,
    /// Let other users in, as their permissions allow (without root: needs user_allow_other in /etc/fuse.conf)
    #[arg(long)]
    allow_other: bool,
    /// Let set-user-id and set-group-id programs and file capabilities take effect (root, with a pool of root's own)
    #[arg(long)]
    suid: bool,
    /// Let device nodes be opened (root, with a pool of root's own)
    #[arg(long)]
    dev: bool,
    /// Percent of the pool that other users leave to root and to the user who mounts, as ext4 does
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=50), requires = "allow_other")]
    reserve: u8,
}

impl MountArguments {
    /// Refuses contradicting options, before the command makes anything.
    pub fn check(&self) -> Outcome {
        if self.cached && self.data == Some(DataMode::Atomic) {
            let why = "--cached and --data atomic exclude each other: the kernel would cut writes into pages";
            return Err(Failure::Usage(why.into()));
        }
        Ok(())
    }

    /// Returns the mount request for the folder `point`.
    pub fn mounting(&self, point: &Path, read_only: bool) -> Outcome<Mounting> {
        self.check()?;
        let Self { cached, data, allow_other, suid, dev, reserve } = *self;
        let (point, reserve_percent) = (absolute(point)?, if allow_other { reserve } else { 0 });
        Ok(Mounting { point, cached, data, allow_other, read_only, suid, dev, reserve_percent })
    }
}

fn data_mode(name: &str) -> Result<DataMode, String> {
    let names = DataMode::ALL.map(|(name, _)| name).join(", ");
    DataMode::from_name(name).ok_or_else(|| format!("one of {names}"))
}

#[derive(Args)]
pub struct MountWords {
    /// The file system
    name: String,
    /// The folder, which is made if it is missing; the mount hides what it holds
    dir: PathBuf,
}

#[derive(Args)]
pub struct Mount {
    #[command(flatten)]
    fs: InPool<MountWords>,
    #[command(flatten)]
    how: MountArguments,
    /// Refuse changes
    #[arg(long)]
    read_only: bool,
    /// Print JSON: one line, when it is mounted
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    medium: MediumArguments,
}

impl Fs {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(Create { fs: InPool { pool, words: FsName { name } }, super_threshold, ssd, lose, json }) => {
                let super_threshold_bytes = super_threshold.0;
                let pool = pool.path()?;
                let made: FsReport = with_files(&ssd, &mut Vec::new(), |ssds| {
                    command_pool::ask(&pool, FsRequest::Create { name, super_threshold_bytes, ssds, lose }, None)
                })?;
                print(json, &made, show)
            }
            Self::List(WholePool { at, json }) => {
                let all: Vec<FsReport> = command_pool::ask(&at.pool.path()?, FsRequest::List, None)?;
                print(json, &all, |all| all.iter().map(show).collect())
            }
            Self::Remove(InPool { pool, words: FsName { name } }) => {
                command_pool::ask::<Value>(&pool.path()?, FsRequest::Remove { name }, None).map(drop)
            }
            Self::Mount(mount) => mount.run(),
            Self::Tier(tier) => tier.run(),
            Self::Unmount(place) => unmount(&place),
            Self::Stat(Stat { fs, json }) => {
                let (pool, which) = located(&fs)?;
                let report: FsReport = command_pool::ask(&pool, FsRequest::Stat(which), None)?;
                print(json, &report, show)
            }
            Self::Check(check) => check.run(),
        }
    }
}

/// Asks the owner to unmount the file system. If no process answers for a mount, this function removes it without an
/// owner.
fn unmount(place: &InPool<FsPlace>) -> Outcome {
    let (pool, which) = located(place)?;
    let points = match &which.seen {
        Some(_) => vec![place.words.at.clone()],
        None => mounts::points_of(&pool, &which.name),
    };
    let mut is_cleared = false;
    for point in &points {
        let cleared = mounts::clear(point).map_err(|error| format!("unmounting {}: {error}", point.display()))?;
        is_cleared |= cleared;
    }
    if is_cleared && points.iter().all(|point| mounts::file_system_on(point).is_none()) {
        return Ok(());
    }
    command_pool::ask::<Value>(&pool, FsRequest::Unmount(which), None).map(drop)
}

impl Mount {
    fn run(self) -> Outcome {
        let stop = Stop::new()?;
        self.medium.check()?;
        if self.medium.is_buffered() {
            return Err(Failure::Usage("--guard buffered is for disks: a file system keeps nothing back".into()));
        }
        let mounting = self.how.mounting(&self.fs.words.dir, self.read_only)?;
        let mut command_pool = CommandPool::with(&self.fs.pool.path()?, &self.medium)?;
        let begun = self.begin(&mut command_pool, mounting);
        command_pool.hold_while_used(begun, &stop)
    }

    fn begin(&self, command_pool: &mut CommandPool, mounting: Mounting) -> Outcome {
        command_pool.listen()?;
        let (point, hides) = (mounting.point.clone(), mounts::would_hide(&mounting.point));
        let request = FsRequest::Mount { name: self.fs.words.name.clone(), mounting };
        let mounted: FsReport = command_pool.ask(request, None)?;
        if hides {
            mount_notes::remark_hidden(&point);
        }
        print_line(self.json, &mounted, show)
    }
}

/// Returns a line about the state that is kept for clients of an earlier owner, with their process ids, if there are
/// any.
pub fn awaited(fs: &FsReport) -> Option<String> {
    let pids: Vec<String> = fs.awaited_processes.iter().map(u32::to_string).collect();
    let bytes = size::show(fs.space.awaited_bytes);
    let describe = || {
        format!(
            "{bytes} more are free when these processes, which an owner before let in, go on or end: {}",
            pids.join(", ")
        )
    };
    (!pids.is_empty()).then(describe)
}

fn show(fs: &FsReport) -> String {
    let at = match &fs.mounted_on {
        None => "not mounted".into(),
        Some(point) if fs.out_of_sight => format!("unmounted from {}, and still in use", in_line(point)),
        Some(point) => format!("on {}", in_line(point)),
    };
    let data = match (fs.cached, fs.data) {
        _ if fs.read_only => "read-only",
        (true, _) => "writes kept back by the kernel, durable at fsync",
        (false, DataMode::Sync) => "a write is durable when it returns",
        (false, DataMode::Atomic) => "a write is durable when it returns, all or nothing",
        (false, DataMode::Posix) => "a write is durable at fsync",
    };
    let space = &fs.space;
    let awaited = awaited(fs).map_or_else(String::new, |describe| format!("  {describe}\n"));
    let tier = fs.tier.as_ref().map_or_else(String::new, tier::show);
    format!(
        "{:<20} {at}; {data}\n  {} free of {}, {} in superpages, {}\n{tier}{awaited}",
        fs.name,
        size::show(space.free_bytes),
        size::show(space.total_bytes),
        size::show(space.super_bytes),
        size::counted(space.inodes, "inode")
    )
}

#[cfg(test)]
mod tests;
