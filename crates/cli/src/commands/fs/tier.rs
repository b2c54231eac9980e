//! `ferrite fs tier`.

use clap::{Args, Subcommand};
use ferrite_cache::MemberAddress;
use ferrite_daemon::filesystems::{FsReport, FsRequest};
use ferrite_fs::{TierReport, TierSsdReport};

use super::{FsName, FsPlace, located, show as show_fs};
use crate::command_pool;
use crate::commands::print;
use crate::outcome::Outcome;
use crate::pool_argument::InPool;
use crate::size;

/// SSDs that make a file system larger than its pool
///
/// Names and what is used stay in the pool. Cold pages of files go to the SSDs in whole segments of 512 KiB, and come
/// back when they are wanted. A write never waits for an SSD.
#[derive(Subcommand)]
pub enum Tier {
    /// Give a file system that is not mounted SSDs; durable when it returns
    Add(Add),
    /// Write all content to the SSDs that may leave the pool; it stays in the pool too
    Drain(Drain),
}

#[derive(Args)]
pub struct Add {
    #[command(flatten)]
    fs: InPool<FsName>,
    /// An SSD; repeatable, up to 8. A file, a block device or an NBD export. Its content is lost
    #[arg(long, required = true, value_name = "SSD", value_parser = crate::commands::cache::member)]
    ssd: Vec<MemberAddress>,
    /// Use SSDs that may hold data: the bytes that they have, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Drain {
    #[command(flatten)]
    fs: InPool<FsPlace>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Tier {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Add(Add { fs: InPool { pool, words: FsName { name } }, ssd, lose, json }) => {
                let request = FsRequest::AddSsds { name, ssds: ssd, lose };
                let made: FsReport = command_pool::ask(&pool.path()?, request, None)?;
                print(json, &made, show_fs)
            }
            Self::Drain(Drain { fs, json }) => {
                let (pool, which) = located(&fs)?;
                let drained: FsReport = command_pool::ask(&pool, FsRequest::Drain(which), None)?;
                print(json, &drained, show_fs)
            }
        }
    }
}

/// Returns the lines about a tier.
pub fn show(tier: &TierReport) -> String {
    let TierReport { ssds, segments, free_segments, away_bytes, clean_bytes, failed } = tier;
    let ssd = |ssd: &TierSsdReport| {
        let missing = if ssd.is_there { "" } else { ", NOT there: what lies on it cannot be read" };
        format!("  SSD {} ({}{missing})\n", ssd.address, size::show(ssd.bytes))
    };
    let failed =
        failed.as_ref().map_or_else(String::new, |why| format!("  nothing is written to SSDs any more: {why}\n"));
    format!(
        "{}  {} on SSDs only, {} in the pool and on SSDs, {free_segments} of {segments} segments free\n{failed}",
        ssds.iter().map(ssd).collect::<String>(),
        size::show(*away_bytes),
        size::show(*clean_bytes)
    )
}
