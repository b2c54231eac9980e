//! `ferrite fs tier`.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ferrite_cache::MemberAddress;
use ferrite_daemon::filesystems::{FsReport, FsRequest, TierRequest};
use ferrite_fs::{
    AdoptedSsds, DamagedPage, LostPages, PagePlace, SsdRequests, TierPolicy, TierReport, TierScrub, TierSsdReport,
    TierSsdState, TierSsdStats, TierStats,
};
use ferrite_pool::layout::PAGE;
use serde::de::DeserializeOwned;

use super::{FsPlace, located, show as show_fs};
use crate::command_pool;
use crate::commands::new_ssd::{NewSsd, new_ssd, with_files};
use crate::commands::print;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;

/// SSDs that make a file system larger than its pool
///
/// Names and what is used stay in the pool. Cold pages of files go to the SSDs in whole segments of 512 KiB, and come
/// back when they are wanted. A write never waits for an SSD.
#[derive(Subcommand)]
pub enum Tier {
    /// Give a file system SSDs; durable when it returns
    ///
    /// The first ones are given to a file system that is not mounted, and more of them also while it is used.
    Add(Add),
    /// Remove an SSD from a mounted file system; returns when its pages are on the others or in the pool
    ///
    /// Ctrl-C leaves it leaving, and loses nothing: the same command goes on.
    Remove(OneSsd),
    /// Use all of an SSD that became larger
    Grow(OneSsd),
    /// Set the rules by which pages of a mounted file system move, from now on and for later mounts
    Set(Set),
    /// List the SSDs of a file system
    List(TieredFs),
    /// Show how the SSDs of a file system are, and what was done with them since it was mounted
    Stat(Stat),
    /// Take the SSDs that a later life of the pool has used: the pool was restored from an older image
    ///
    /// What was written over since is lost. The files are listed, and nothing is done until `--lose` names the bytes.
    Adopt(Adopt),
    /// Write all content to the SSDs that may leave the pool; it stays in the pool too
    Drain(TieredFs),
    /// Move what sparse segments still hold together, until a tenth of all segments is free. Ctrl-C stops it
    Clean(Clean),
    /// Read all that is on SSDs only, and compare it with what was written. Ctrl-C stops it
    Scrub(TieredFs),
    /// Trim all free space of the SSDs now; the owner trims by itself what becomes free. Ctrl-C stops it
    Trim(TieredFs),
}

#[derive(Args)]
pub struct Add {
    #[command(flatten)]
    fs: InPool<FsPlace>,
    /// An SSD; repeatable, up to 8. A file, which is made if it is missing and has a SIZE, a block device or an NBD
    /// export. Its content is lost
    #[arg(long, required = true, value_name = "SSD[=SIZE]", value_parser = new_ssd)]
    ssd: Vec<NewSsd>,
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
pub struct Stat {
    #[command(flatten)]
    at: TieredFs,
    /// Show instead where a page of this file lies, which is on an SSD only
    #[arg(long = "where", value_name = "FILE", requires = "page")]
    file: Option<PathBuf>,
    /// The page of 4 KiB of that file, counted from 0
    #[arg(long, value_name = "N", requires = "file")]
    page: Option<u64>,
}

#[derive(Args)]
pub struct SsdOfFs {
    /// The folder that the file system is mounted on, or its name
    #[arg(value_name = "DIR|NAME")]
    at: PathBuf,
    /// The SSD, as `ferrite fs tier list` shows it
    #[arg(value_name = "SSD", value_parser = crate::commands::cache::member)]
    ssd: MemberAddress,
}

#[derive(Args)]
pub struct OneSsd {
    #[command(flatten)]
    fs: InPool<SsdOfFs>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OneSsd {
    /// Returns the file system, and the address of the SSD.
    fn split(self) -> (TieredFs, String) {
        let Self { fs: InPool { pool, words: SsdOfFs { at, ssd } }, json } = self;
        (TieredFs { fs: InPool { pool, words: FsPlace { at } }, json }, ssd.address)
    }
}

#[derive(Args)]
pub struct Set {
    #[command(flatten)]
    at: TieredFs,
    /// `ferrite` writes as late and as little as it can; `paper` has the bounds and the lists of NVMFS, to compare
    #[arg(long, value_name = "RULES", value_parser = ["ferrite", "paper"])]
    policy: Option<String>,
}

#[derive(Args)]
pub struct Adopt {
    #[command(flatten)]
    at: TieredFs,
    /// Lose what was written over: the bytes that the refusal printed
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
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
    /// Sends `tier` about the file system.
    fn ask<T: DeserializeOwned>(self, tier: TierRequest) -> Outcome<T> {
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
            Self::Add(Add { fs, ssd, lose, json }) => {
                let (pool, which) = located(&fs)?;
                let made: FsReport = with_files(&ssd, &mut Vec::new(), |ssds| {
                    command_pool::ask(&pool, FsRequest::AddSsds { which, ssds, lose }, None)
                })?;
                print(json, &made, show_fs)
            }
            Self::Adopt(Adopt { at: TieredFs { fs, json }, lose }) => {
                let (pool, which) = located(&fs)?;
                let request = FsRequest::Tier { which, tier: TierRequest::Adopt { lose } };
                let found: AdoptedSsds = command_pool::ask(&pool, request, None)?;
                print(json, &found, show_adopted)?;
                if found.is_adopted {
                    return Ok(());
                }
                let bytes = found.lost_bytes;
                Err(Failure::Failed(format!("nothing was done: --lose {bytes} takes the SSDs without these pages")))
            }
            Self::List(at) => {
                let json = at.json;
                let stats: TierStats = at.ask(TierRequest::Stat)?;
                print(json, &stats.members, |ssds| ssds.iter().map(show_ssd).collect())
            }
            Self::Remove(one) => {
                let (at, ssd) = one.split();
                let json = at.json;
                let left: FsReport = at.ask(TierRequest::Remove { ssd })?;
                print(json, &left, show_fs)
            }
            Self::Set(Set { at, policy }) => {
                let policy = match policy.as_deref() {
                    Some("paper") => TierPolicy::Paper,
                    Some(_) => TierPolicy::Ferrite,
                    None => {
                        return Err(Failure::Usage(
                            "name what is to be set: --policy ferrite or --policy paper".into(),
                        ));
                    }
                };
                let json = at.json;
                let set: FsReport = at.ask(TierRequest::Set { policy })?;
                print(json, &set, show_fs)
            }
            Self::Grow(one) => {
                let (at, ssd) = one.split();
                at.print_stats(TierRequest::Grow { ssd })
            }
            Self::Stat(Stat { at, file: Some(file), page }) => {
                let found =
                    std::fs::metadata(&file).map_err(|error| format!("looking at {}: {error}", file.display()))?;
                let (json, page) = (at.json, page.unwrap_or(0));
                let place: PagePlace = at.ask(TierRequest::Where { ino: found.ino(), page })?;
                print(json, &place, |place| format!("byte {} of {}\n", place.offset, place.address))
            }
            Self::Stat(Stat { at, .. }) => at.print_stats(TierRequest::Stat),
            Self::Scrub(at) => {
                let json = at.json;
                let found: TierScrub = at.ask(TierRequest::Scrub)?;
                print(json, &found, show_scrub)
            }
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
    let TierReport { ssds, segments, free_segments, away_bytes, clean_bytes, policy, failed } = tier;
    let ssd = |ssd: &TierSsdReport| {
        let missing = if ssd.is_there { "" } else { ", NOT there: what lies on it cannot be read" };
        format!("  SSD {} ({}{missing})\n", ssd.address, size::show(ssd.bytes))
    };
    let rules = if *policy == TierPolicy::Paper { "; the rules of the paper" } else { "" };
    let failed =
        failed.as_ref().map_or_else(String::new, |why| format!("  nothing is written to SSDs any more: {why}\n"));
    format!(
        "{}  {} on SSDs only, {} in the pool and on SSDs, {free_segments} of {segments} segments free{rules}\n{failed}",
        ssds.iter().map(ssd).collect::<String>(),
        size::show(*away_bytes),
        size::show(*clean_bytes)
    )
}

fn show_adopted(found: &AdoptedSsds) -> String {
    let file = |file: &LostPages| {
        let path = file.path.as_deref().unwrap_or("a file without a name");
        format!("{path}: {} lost\n", size::show(file.bytes))
    };
    let lost: String = found.files.iter().map(file).collect();
    let done = if found.is_adopted { "the file system has its SSDs again\n" } else { "" };
    format!("{lost}{done}")
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

fn show_scrub(found: &TierScrub) -> String {
    let TierScrub { segments, pages, damaged_summaries, damaged_pages, damaged } = found;
    let line = |damaged: &DamagedPage| match &damaged.path {
        Some(path) => format!("  page {} of {path} is damaged\n", damaged.page),
        None => format!("  page {} of inode {}, which has no name, is damaged\n", damaged.page, damaged.ino),
    };
    let lists = match damaged_summaries {
        0 => String::new(),
        count => format!("  {count} segments have damaged lists of their pages, and cannot be cleaned\n"),
    };
    let lines: String = damaged.iter().map(line).collect();
    format!("{pages} pages in {segments} segments are right, {damaged_pages} are damaged\n{lists}{lines}")
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
