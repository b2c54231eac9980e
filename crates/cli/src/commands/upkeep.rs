//! Maintenance of a pool: `ferrite pool check|defrag|grow|wear`.

use std::fmt::Display;
use std::path::Path;
use std::sync::Once;

use clap::Args;
use ferrite_daemon::registry;
use ferrite_memory::{MapOptions, Mapped, set_len};
use ferrite_owner::access::PoolHolder;
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{PoolMemory, TallyReport, WearReport};
use ferrite_pool::defrag::{Defragmented, Scatter};
use ferrite_pool::{Grown, Lock, Superblock, check};
use serde::Serialize;

use super::pool::ours;
use super::{WholePool, print};
use crate::bar::Bar;
use crate::command_pool::{self, CommandPool};
use crate::host;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::{InPool, NoWords};
use crate::size;
use crate::stop;

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    at: InPool<NoWords>,
    /// Repair what has one right answer, and report what it loses; a file system whose parts contradict each other stays
    /// as it is, for a mount --read-only
    #[arg(long)]
    repair: bool,
    /// Give up a tag that cannot be read, called as the check calls it: its space becomes free; needs --repair
    #[arg(long, value_name = "NAME", requires = "repair")]
    lose: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Grow {
    #[command(flatten)]
    at: InPool<NoWords>,
    /// The file's new size; a device's is its own
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Wear {
    #[command(flatten)]
    at: InPool<NoWords>,
    /// How many of the most written pages to list
    #[arg(long, default_value_t = 10, value_parser = size::whole::<usize>)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Runs the check.
    pub fn run(self) -> Outcome {
        let Self { at: InPool { pool, .. }, repair, lose, json } = self;
        let pool = if repair { pool.named_path()? } else { pool.path()? };
        let mut report = match command_pool::find(&pool)? {
            PoolHolder::Theirs(_, holder) if repair => {
                return Err(format!(
                    "{} is {holder}: a repair needs the pool alone, so end that first",
                    pool.display()
                )
                .into());
            }
            PoolHolder::Theirs(client, _) => CommandPool::from(client).ask(PoolRequest::Check, None)?,
            PoolHolder::Ours(lock) => check_closed(&lock, repair.then_some(&lose[..]))?,
        };
        report.findings.iter_mut().for_each(leave_out_advice);
        let message = CheckReport { sound: report.is_sound(), report: &report };
        print(json, &message, |message| show_findings(&pool, message.report))?;
        if report.is_sound() && report.unknown.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// The findings of a check, for programs.
#[derive(Serialize)]
struct CheckReport<'a> {
    /// True if the pool has no error, or none after the repair.
    sound: bool,
    #[serde(flatten)]
    report: &'a check::PoolCheckReport,
}

/// Removes the advice to run a check from a finding, because this is the check.
fn leave_out_advice(finding: &mut check::CheckFinding) {
    let advice = "run `ferrite pool check`";
    let what = finding.what.replace(&format!("{advice}, or "), "");
    finding.what = what.replace(&format!(": {advice}"), "");
}

/// Checks the pool that `lock` holds, without opening it. If `repair` names tags to give up, the function opens the
/// pool and repairs it.
fn check_closed(lock: &Lock, repair: Option<&[String]>) -> Outcome<check::PoolCheckReport> {
    let PoolMemory { memory, .. } = MediumArguments::default().map(lock)?;
    let bar = Bar::new();
    let Some(lose) = repair else {
        // The check writes nothing, so a signal may end it at any point.
        return Ok(check::check(&memory, &registry().owners(), &mut |it| _ = bar.show(&it)));
    };
    stop::watch()?;
    let message = Once::new();
    let mut watch = |it| {
        if !bar.show(&it) {
            message.call_once(|| remark!("the repair goes on to its end; Ctrl-C again ends it, and the next goes on"));
        }
    };
    Ok(check::repair(&memory, &registry().owners(), lose, &mut watch)?)
}

fn show_findings(path: &Path, report: &check::PoolCheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let place = finding.at.map(|at| format!(" (byte {at:#x})")).unwrap_or_default();
        let tag = finding.tag.as_ref().map(|tag| format!("{tag:?}: ")).unwrap_or_default();
        text += &format!("{:?}: {tag}{}{place}\n", finding.severity, finding.what);
        text += &finding.repaired.as_ref().map(|done| format!("  repaired: {done}\n")).unwrap_or_default();
    }
    for name in &report.unknown {
        text += &format!("there is no {name:?} to give up: name it as the check does\n");
    }
    let sum = match (report.is_sound(), report.opened) {
        (true, _) => "sound",
        (false, true) => "NOT SOUND: see above; --repair mends what has one right answer",
        (false, false) => return text + &format!("{}: NOT SOUND, and nothing of it can be read\n", path.display()),
    };
    text + &format!("{}: {} tags, {} free: {sum}\n", path.display(), report.tags, size::show(report.usage.free_bytes))
}

impl Grow {
    /// Grows the pool. After an interruption, the pool has its old size or its new one.
    pub fn run(self) -> Outcome {
        let Self { at, size, json } = self;
        let pool = at.pool.path()?;
        let lock = ours(&pool)?;
        let grown = match size.filter(|_| lock.file().metadata().is_ok_and(|found| found.is_file())) {
            Some(size) => lengthen(&lock, size)?,
            None => grow(&lock, &MediumArguments::default().map(&lock)?)?,
        };
        print(json, &grown, |it| {
            format!("{}: {} before, {} now\n", pool.display(), size::show(it.before_bytes), size::show(it.after_bytes))
        })
    }
}

/// Makes the file that `lock` holds `size` bytes long, and grows its pool to that size. If this fails, the file gets
/// its old length again, and the reserved space is freed. After a crash the file may be longer than its pool, which
/// still opens.
fn lengthen(lock: &Lock, size: u64) -> Outcome<Grown> {
    let (file, path) = (lock.file(), lock.path().display());
    let before = file.metadata()?.len();
    if size < before {
        return Err(format!("{path} has {} and can only grow", size::show(before)).into());
    }
    let refused = |why: &dyn Display| Failure::from(format!("making {path} {} long: {why}", size::show(size)));
    // A pool in a file that cannot be mapped would never open, so the size is tried with anonymous memory first.
    let options = MapOptions { name: "it".into(), ..MapOptions::default() };
    Mapped::anonymous(size, &options).map_err(|error| refused(&error))?;
    let mut has_grown = false;
    // The length is durable before the superblock contains it, because a fence of the memory does not persist the
    // length.
    let lengthened = set_len(file, size).and_then(|()| file.sync_all()).map_err(|error| refused(&error));
    let grown = lengthened.and_then(|()| MediumArguments::default().map(lock)).and_then(|medium| {
        let grown = grow(lock, &medium);
        has_grown = Superblock::read(&*medium.memory).is_ok_and(|found| found.size > before);
        grown
    });
    if grown.is_err()
        && !has_grown
        && let Err(error) = file.set_len(before)
    {
        remark!("{path} stays longer than its pool: {error}");
    }
    grown
}

/// Grows the pool that `lock` holds to the size of `medium`, its file or device.
fn grow(lock: &Lock, medium: &PoolMemory) -> Outcome<Grown> {
    let path = lock.path().display();
    let grown = ferrite_pool::grow(&medium.memory, host::boot_id()?);
    Ok(grown.map_err(|error| format!("growing {path}: {error}"))?)
}

/// Defragments the pool in small steps. After an interruption at any step, the pool is sound, and the next run
/// continues.
pub fn defrag(words: &WholePool) -> Outcome {
    stop::watch()?;
    let path = words.at.pool.path()?;
    let lock = ours(&path)?;
    let PoolMemory { memory, .. } = MediumArguments::default().map(&lock)?;
    let opened = ferrite_pool::Pool::open(memory, host::boot_id()?);
    let (mut pool, _) = opened.map_err(|error| format!("{}: {error}", lock.path().display()))?;
    let bar = Bar::new();
    let done = ferrite_pool::defrag::defrag(&mut pool, &registry().owners(), &mut |it| bar.show(&it));
    drop(bar);
    let done = and_then_cleared(done.map_err(Failure::from), pool.close().map_err(Failure::from))?;
    print(words.json, &done, |it| show_defrag(&path, it))
}

fn show_defrag(path: &Path, it: &Defragmented) -> String {
    let scatter = |it: &Scatter| {
        let run = size::show(it.largest_free_run_bytes);
        format!("{} extents, {} free runs, the largest of {run}", it.extents, it.free_runs)
    };
    let moved = size::show(it.moved_bytes);
    let mut text = format!("{}: {moved} moved\n  before: {}\n", path.display(), scatter(&it.before));
    text += &format!("  after:  {}\n", scatter(&it.after));
    for left in &it.left {
        let tag = left.tag.as_ref().map(|tag| format!("{tag:?}: ")).unwrap_or_default();
        text += &format!("  left:   {tag}{}\n", left.why);
    }
    text
}

impl Wear {
    /// Prints the wear.
    pub fn run(self) -> Outcome {
        let wear: WearReport = command_pool::ask(&self.at.pool.path()?, PoolRequest::Wear { top: self.top }, None)?;
        print(self.json, &wear, show_wear)
    }
}

fn show_wear(wear: &WearReport) -> String {
    let mut text = format!("{} written since the owner opened it\n", size::show(wear.written_bytes));
    text += &show_tally("pages", &wear.pages);
    text += &wear.lines.as_ref().map(|lines| show_tally("lines", lines)).unwrap_or_default();
    for (at, writes) in &wear.top_pages {
        text += &format!("  page at {at:#x}: {}\n", size::counted((*writes).into(), "write"));
    }
    text
}

fn show_tally(what: &str, tally: &TallyReport) -> String {
    let [half, most, nearly_all] = tally.percentiles;
    format!(
        "{what}: {} of {} written, the most written {}, {:.1} times on average; half of them at most {}, \
         9 in 10 {most}, 99 in 100 {nearly_all}; inequality {:.2}\n",
        tally.written,
        tally.units,
        size::counted(tally.max.into(), "time"),
        tally.mean,
        size::counted(half.into(), "time"),
        tally.gini
    )
}
