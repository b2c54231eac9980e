//! SQLite's own speed test, as `cargo xtask test` builds it: its usual statements, in transactions of many.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::places::DatabasePlaces;
use super::{CommitPlan, Committers, NOTHING, STRICT, SYNCED, committer};
use crate::options::{BenchOptions, Length};
use crate::{Result, program};

/// The settings of one run.
struct SpeedtestRun {
    program: PathBuf,
    size: &'static str,
    /// The paths of our library and of a pool, for the runs through it.
    ours: Option<(PathBuf, PathBuf)>,
    database: PathBuf,
    /// Whether the run uses synchronous=FULL.
    syncs: bool,
}

/// The subjects, or why the case is left out.
pub fn committers<'a>(places: &'a DatabasePlaces, options: &BenchOptions, plan: CommitPlan) -> Committers<'a> {
    let built = options.ferrite.as_ref().and_then(|binary| Some((binary.parent()?, binary.parent()?.parent()?)));
    let Some((folder, target)) = built else { return Ok(Err("there is no program of Ferrite's".into())) };
    let (program, library) = (target.join("programs/sqlite/source/speedtest1"), folder.join("libferrite_sqlite.so"));
    if !program.is_file() || !library.is_file() {
        return Ok(Err(
            "cargo xtask test builds speedtest1, and cargo build --release -p ferrite-sqlite its VFS".into()
        ));
    }
    let size = if options.length == Length::Full { "20" } else { "2" };
    let run = |home: &Path, ours, syncs| {
        let program = program.clone();
        SpeedtestRun { program, size, ours, database: home.join("speed.db"), syncs }
    };
    let memory = places.memory.folder("speedtest")?;
    let mut all = vec![
        (STRICT, run(&memory, Some((library, places.pool.path().to_owned())), true)),
        (NOTHING, run(&memory, None, false)),
        (SYNCED, run(&memory, None, true)),
    ];
    let others = places.synced.entries.iter().filter(|(name, _)| *name != STRICT);
    all.extend(others.map(|(name, home)| (*name, run(home, None, true))));
    let subject = |(name, run): (&'static str, SpeedtestRun)| committer(name, plan, move |_| runs_per_second(&run));
    Ok(Ok(all.into_iter().map(subject).collect()))
}

fn runs_per_second(run: &SpeedtestRun) -> Result<f64> {
    // The program requires that the database does not exist.
    ["", "-wal", "-shm", "-journal"].iter().for_each(|suffix| {
        let _ = std::fs::remove_file(format!("{}{suffix}", run.database.display()));
    });
    let mut command = Command::new(&run.program);
    command.args(["--size", run.size, "--journal", "wal"]).args((!run.syncs).then_some("--nosync"));
    if let Some((library, pool)) = &run.ours {
        command.env("FERRITE_VFS", library).env("FERRITE_POOL", pool);
    }
    let output = program::output(command.arg(&run.database))?;
    total_seconds(&output).map(|seconds| 1.0 / seconds).ok_or_else(|| program::strange("speedtest1", &output))
}

/// The time of the line of totals.
fn total_seconds(output: &str) -> Option<f64> {
    let total = output.lines().find_map(|line| line.trim().strip_prefix("TOTAL"))?;
    let seconds: f64 = total.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests;
