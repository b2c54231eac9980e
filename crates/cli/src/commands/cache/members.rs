//! The subcommands of `ferrite cache` that change its members or end it.

use clap::Args;
use ferrite_cache::{
    CacheReport, CacheRequest, DiskStats, ForgottenContent, MemberAddress, NewCacheDisk, ReturnedSsd, SsdReturn,
    SsdStats, StampPlace,
};

use super::CacheName;
use super::create::{named_disk, stamp_values};
use super::shown::{show_disk, show_line, show_ssd};
use crate::command_pool;
use crate::commands::new_ssd::{NewSsd, new_ssd, with_files};
use crate::commands::print;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;

#[derive(Args)]
pub struct NewSsdWords {
    /// The cache
    name: String,
    /// The SSD: a file, which is made if it is missing and has a SIZE, a block device or an NBD export
    #[arg(value_name = "SSD[=SIZE]", value_parser = new_ssd)]
    ssd: NewSsd,
}

#[derive(Args)]
pub struct AddSsd {
    #[command(flatten)]
    cache: InPool<NewSsdWords>,
    /// Use an SSD that may hold data: the bytes that it has, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct SsdOfCache {
    /// The cache
    name: String,
    /// The number of the SSD, which `ferrite cache stat` shows
    id: u8,
}

#[derive(Args)]
pub struct RemoveSsd {
    #[command(flatten)]
    cache: InPool<SsdOfCache>,
    /// Keep the SSD, which is leaving
    #[arg(long)]
    cancel: bool,
    /// Remove an SSD with dirty bytes that no SSD gives: the number of these bytes, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse, conflicts_with = "cancel")]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Online {
    #[command(flatten)]
    cache: InPool<SsdOfCache>,
    /// Let the SSD come back empty: the dirty bytes that are only there, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct NewDiskWords {
    /// The cache
    name: String,
    /// The disk, with the name by which it is used
    #[arg(value_name = "NAME=DISK", value_parser = named_disk)]
    disk: (Option<String>, MemberAddress),
}

#[derive(Args)]
pub struct AddDisk {
    #[command(flatten)]
    cache: InPool<NewDiskWords>,
    /// Where the stamp of the disk goes, as `ferrite cache create --help` says
    #[arg(long, value_name = "PLACE", default_value = "head", value_parser = stamp_values())]
    stamp: StampPlace,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct DiskOfCache {
    /// The cache
    name: String,
    /// The name of the disk
    disk: String,
}

#[derive(Args)]
pub struct RemoveDisk {
    #[command(flatten)]
    cache: InPool<DiskOfCache>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Remove {
    #[command(flatten)]
    cache: InPool<CacheName, true>,
    /// Write nothing to the disks: the dirty bytes that the cache has, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON: the cache as it was
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Forget {
    #[command(flatten)]
    cache: InPool<CacheName, true>,
    /// Drop clean content; refused if anything is dirty
    #[arg(long, conflicts_with = "lose")]
    clean: bool,
    /// Drop everything: the dirty bytes that the cache has, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl AddSsd {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: NewSsdWords { name, ssd } }, lose, json } = self;
        let pool = pool.path()?;
        let added: SsdStats = with_files(&[ssd], &mut Vec::new(), |mut ssds| {
            command_pool::ask(&pool, CacheRequest::AddSsd { name, ssd: ssds.remove(0), lose }, None)
        })?;
        print(json, &added, show_ssd)
    }
}

impl RemoveSsd {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: SsdOfCache { name, id } }, cancel, lose, json } = self;
        let pool = pool.path()?;
        if cancel {
            let kept: SsdStats = command_pool::ask(&pool, CacheRequest::KeepSsd { name, id }, None)?;
            return print(json, &kept, show_ssd);
        }
        let left: CacheReport = command_pool::ask(&pool, CacheRequest::RemoveSsd { name, id, lose }, None)?;
        print(json, &left, show_line)
    }
}

impl Online {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: SsdOfCache { name, id } }, lose, json } = self;
        let back: ReturnedSsd = command_pool::ask(&pool.path()?, CacheRequest::Online { name, id, lose }, None)?;
        print(json, &back, |back| {
            let how = match back.content {
                SsdReturn::WithContent => "with all that it held",
                SsdReturn::Empty => "empty",
            };
            format!("SSD {id} is back, {how}\n{}", show_ssd(&back.ssd))
        })
    }
}

impl AddDisk {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: NewDiskWords { name, disk: (export, at) } }, stamp, json } = self;
        if export.is_none() {
            return Err(Failure::Usage("the disk needs a name: write NAME=DISK".into()));
        }
        let disk = NewCacheDisk { export, at, stamp };
        let added: DiskStats = command_pool::ask(&pool.path()?, CacheRequest::AddDisk { name, disk }, None)?;
        print(json, &added, show_disk)
    }
}

impl RemoveDisk {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: DiskOfCache { name, disk: export } }, json } = self;
        let left: CacheReport = command_pool::ask(&pool.path()?, CacheRequest::RemoveDisk { name, export }, None)?;
        print(json, &left, show_line)
    }
}

impl Remove {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: CacheName { name } }, lose, json } = self;
        let removed: CacheReport = command_pool::ask(&pool.path()?, CacheRequest::Remove { name, lose }, None)?;
        print(json, &removed, |removed| format!("removed the cache {}\n", removed.name))
    }
}

impl Forget {
    pub fn run(self) -> Outcome {
        let Self { cache: InPool { pool, words: CacheName { name } }, clean, lose, json } = self;
        let lose = match (clean, lose) {
            (true, None) => 0,
            (_, Some(bytes)) => bytes,
            (false, None) => {
                return Err(Failure::Usage(
                    "say what may be lost: --clean, or --lose BYTES with the dirty bytes".into(),
                ));
            }
        };
        let forgotten: ForgottenContent = command_pool::ask(&pool.path()?, CacheRequest::Forget { name, lose }, None)?;
        print(json, &forgotten, |it| {
            let missed =
                it.missed.iter().map(|address| format!("  not reached, and still tied as before: {address}\n"));
            show_line(&it.report) + &missed.collect::<String>()
        })
    }
}
