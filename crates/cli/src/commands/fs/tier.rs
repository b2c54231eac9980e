//! `ferrite fs tier`.

use clap::{Args, Subcommand};
use ferrite_cache::MemberAddress;
use ferrite_daemon::filesystems::{FsReport, FsRequest, TierRequest};
use ferrite_fs::{SsdRequests, TierReport, TierSsdReport, TierSsdState, TierSsdStats, TierStats};
use ferrite_pool::layout::PAGE;

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
    /// List the SSDs of a file system
    List(TieredFs),
    /// Show how the SSDs of a file system are, and what was done with them since it was mounted
    Stat(TieredFs),
    /// Write all content to the SSDs that may leave the pool; it stays in the pool too
    Drain(TieredFs),
    /// Move what sparse segments still hold together, until a tenth of all segments is free. Ctrl-C stops it
    Clean(Clean),
    /// Trim all free space of the SSDs now; the owner trims by itself what becomes free. Ctrl-C stops it
    Trim(TieredFs),
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
pub struct TieredFs {
    #[command(flatten)]
    fs: InPool<FsPlace>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Clean {
    #[command(flatten)]
    at: TieredFs,
    /// Go on until no more segments become free
    #[arg(long)]
    all: bool,
}

impl TieredFs {
    /// Sends `tier` about the file system. Returns its stats.
    fn ask(self, tier: TierRequest) -> Outcome<TierStats> {
        let (pool, which) = located(&self.fs)?;
        command_pool::ask(&pool, FsRequest::Tier { which, tier }, None)
    }

    /// Sends `tier`, and prints the stats.
    fn print_stats(self, tier: TierRequest) -> Outcome {
        let json = self.json;
        print(json, &self.ask(tier)?, show_stats)
    }
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
            Self::List(at) => {
                let json = at.json;
                print(json, &at.ask(TierRequest::Stat)?.members, |ssds| ssds.iter().map(show_ssd).collect())
            }
            Self::Stat(at) => at.print_stats(TierRequest::Stat),
            Self::Drain(TieredFs { fs, json }) => {
                let (pool, which) = located(&fs)?;
                let drained: FsReport = command_pool::ask(&pool, FsRequest::Drain(which), None)?;
                print(json, &drained, show_fs)
            }
            Self::Clean(Clean { at, all }) => at.print_stats(TierRequest::Clean { all }),
            Self::Trim(at) => at.print_stats(TierRequest::Trim),
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

fn show_ssd(ssd: &TierSsdStats) -> String {
    let TierSsdStats { uuid, address, state, bytes, used_bytes, free_bytes, trimmed_bytes, errors } = ssd;
    let state = match state {
        TierSsdState::InUse => "in use",
        TierSsdState::Leaving => "leaving: `ferrite fs tier remove` goes on with it",
        TierSsdState::Missing => "MISSING",
    };
    let [bytes, used, free, trimmed] = [bytes, used_bytes, free_bytes, trimmed_bytes].map(|bytes| size::show(*bytes));
    format!(
        "{address} ({uuid})\n  {state}; {used} of {bytes} used, {free} free, {trimmed} trimmed, {errors} failed requests\n"
    )
}

fn show_stats(stats: &TierStats) -> String {
    let TierStats { members, segments, pages, writes, reads, trims, .. } = stats;
    let asked = |what: &str, requests: &SsdRequests| {
        let SsdRequests { count, bytes, mean_bytes } = requests;
        format!("  {what}: {} in {count} requests of {}\n", size::show(*bytes), size::show(*mean_bytes))
    };
    let pages = [pages.away, pages.clean].map(|pages| size::show(pages * PAGE));
    [
        members.iter().map(show_ssd).collect::<String>(),
        format!(
            "  {} of {} segments free, {} of them not trimmed; {} fragmented\n",
            segments.free, segments.total, segments.untrimmed, segments.fragmented
        ),
        format!("  {} on SSDs only, {} in the pool and on SSDs\n", pages[0], pages[1]),
        asked("written", writes),
        asked("read", reads),
        asked("trimmed", trims),
        format!(
            "  {} pages destaged in {} segments, {} evicted, {} brought in\n",
            stats.destaged_pages, stats.destaged_segments, stats.evicted_pages, stats.brought_in_pages
        ),
        format!(
            "  {} segments cleaned, {} pages moved for that: efficiency {:.3}\n",
            stats.cleaned_segments, stats.moved_pages, stats.efficiency
        ),
        format!("  writing rests: {}\n", stats.rests),
    ]
    .concat()
}
