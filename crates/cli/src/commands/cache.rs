//! `ferrite cache`.

mod create;
mod members;
mod settings;
mod shown;

use clap::{Args, Subcommand};
use ferrite_cache::{CacheCheckOptions, CacheCheckReport, CacheReport, CacheRequest, CacheStats, DroppedContent};

use super::{WholePool, print};
use crate::command_pool;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;

use create::Create;
pub use create::member;
use settings::SettingArguments;

pub use shown::show_line;

/// SSDs as a cache before slow disks: make caches, look at them, change them, clean them
///
/// A cache is used by its name wherever a disk is named: `ferrite disk serve POOL NAME`, `attach`, `copy`, and `ferrite
/// up`. What the cache knows lies in the pool, so it is warm and complete at once after a crash.
#[derive(Subcommand)]
pub enum Cache {
    /// Make a cache of SSDs before a disk; durable when it returns
    ///
    /// In write-back mode a write is complete when it is in the pool; it goes on to two SSDs, and later to the disk. So no
    /// write is lost if one SSD fails. The disk is used through the cache alone from then on.
    Create(Create),
    /// List the caches, without opening any
    List(WholePool),
    /// Show what a cache is, how its SSDs and disks are, and what it has done since it was opened
    Stat(OneCache),
    /// Change settings of a cache, also while it is in use; returns at once
    Set(Set),
    /// Write all dirty data to the disks; the cache stays in use and warm. Ctrl-C stops it and loses nothing
    Clean(OneCache),
    /// Check a cache, also while it is in use: its tables, its buffers and the stamps of its members
    ///
    /// Each table of the pool is compared with what is in use, and with --data with the SSDs. A check changes nothing that
    /// a user has stored. `ferrite pool check` compares the tables too, and opens no SSD and no disk.
    Check(Check),
    /// Empty the clean part of a cache, to measure it cold; dirty data stays
    Drop(OneCache),
    /// Add an SSD, also while the cache is in use; its content is lost
    AddSsd(members::AddSsd),
    /// Remove an SSD, also while the cache is in use; returns when its pages have moved to the others
    ///
    /// Ctrl-C leaves it leaving: the same command waits for the end, and --cancel keeps the SSD.
    RemoveSsd(members::RemoveSsd),
    /// Use an SSD again that failed or is missing: with its content if that is right, else empty
    Online(members::Online),
    /// Add a disk, also while the cache is in use
    AddDisk(members::AddDisk),
    /// Remove a disk that no client uses and that has no dirty data in the cache; it keeps its data
    RemoveDisk(members::RemoveDisk),
    /// Write all dirty data to the disks, and remove the cache; refused while a client uses it
    ///
    /// The disks keep their data, and the SSDs can be used for something else.
    Remove(members::Remove),
    /// Drop what a cache holds whose pool was restored from a backup, or whose disk was used without it
    Forget(members::Forget),
}

#[derive(Args)]
pub struct CacheName {
    /// The cache
    name: String,
}

#[derive(Args)]
pub struct OneCache {
    #[command(flatten)]
    cache: InPool<CacheName>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    cache: InPool<CacheName>,
    /// Read every page on the SSDs too, clean and dirty ones, and compare it with its checksum
    #[arg(long)]
    data: bool,
    /// Read every clean block from the disks too, and compare it with its checksum
    #[arg(long)]
    against_disk: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Set {
    #[command(flatten)]
    cache: InPool<CacheName>,
    #[command(flatten)]
    settings: SettingArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Cache {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::List(WholePool { at, json }) => {
                let caches: Vec<CacheReport> = command_pool::ask(&at.pool.path()?, CacheRequest::List, None)?;
                print(json, &caches, |caches| caches.iter().map(show_line).collect())
            }
            Self::Stat(OneCache { cache: InPool { pool, words: CacheName { name } }, json }) => {
                let stats: CacheStats = command_pool::ask(&pool.path()?, CacheRequest::Stat { name }, None)?;
                print(json, &stats, shown::show_stats)
            }
            Self::Set(Set { cache: InPool { pool, words: CacheName { name } }, settings, json }) => {
                let settings = settings.change_of_some()?;
                let request = CacheRequest::Set { name, settings };
                let cache: CacheReport = command_pool::ask(&pool.path()?, request, None)?;
                print(json, &cache, show_line)
            }
            Self::Clean(OneCache { cache: InPool { pool, words: CacheName { name } }, json }) => {
                let cache: CacheReport = command_pool::ask(&pool.path()?, CacheRequest::Clean { name }, None)?;
                print(json, &cache, show_line)
            }
            Self::Check(check) => check.run(),
            Self::Drop(OneCache { cache: InPool { pool, words: CacheName { name } }, json }) => {
                let dropped: DroppedContent = command_pool::ask(&pool.path()?, CacheRequest::Drop { name }, None)?;
                print(json, &dropped, |it| format!("dropped {}\n", size::show(it.dropped_bytes)))
            }
            Self::AddSsd(add) => add.run(),
            Self::RemoveSsd(remove) => remove.run(),
            Self::Online(online) => online.run(),
            Self::AddDisk(add) => add.run(),
            Self::RemoveDisk(remove) => remove.run(),
            Self::Remove(remove) => remove.run(),
            Self::Forget(forget) => forget.run(),
        }
    }
}

impl Check {
    fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: CacheName { name } }, data, against_disk, json } = self;
        let request = CacheRequest::Check { name, options: CacheCheckOptions { read: data, against_disk } };
        let report: CacheCheckReport = command_pool::ask(&pool.path()?, request, None)?;
        print(json, &report, shown::show_check)?;
        if report.is_sound() { Ok(()) } else { Err(Failure::Reported) }
    }
}

#[cfg(test)]
mod tests;
