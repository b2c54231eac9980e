//! SQLite's own speed test, as `cargo xtask test` builds it: its usual statements, in transactions of many.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::field::Field;
use super::{NOTHING, Plan, STRICT, Speed};
use crate::options::{Length, Options};
use crate::{Error, Result, program};

/// The database on tmpfs, synced as if it were a disk.
const SYNCED: &str = "tmpfs, FULL";

/// How it is run.
struct Run {
    program: PathBuf,
    size: &'static str,
    /// Our library and a pool.
    ours: Option<(PathBuf, PathBuf)>,
    database: PathBuf,
    /// At synchronous=FULL.
    syncs: bool,
}

/// The subjects, or why there are none.
pub fn racers<'a>(
    field: &'a Field,
    options: &Options,
    _: Plan,
) -> Result<std::result::Result<Vec<(&'static str, Speed<'a>)>, String>> {
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
        Run { program, size, ours, database: home.join("speed.db"), syncs }
    };
    let memory = field.memory.path("speedtest");
    std::fs::create_dir_all(&memory).map_err(Error::io("making a folder"))?;
    let mut all = vec![
        (STRICT, run(&memory, Some((library, field.pool.clone())), true)),
        (NOTHING, run(&memory, None, false)),
        (SYNCED, run(&memory, None, true)),
    ];
    let others = field.places.iter().filter(|(name, _)| *name != STRICT);
    all.extend(others.map(|(name, home)| (*name, run(home, None, true))));
    let speed = |(name, run): (&'static str, Run)| (name, Box::new(move |_| runs_per_second(&run)) as Speed<'a>);
    Ok(Ok(all.into_iter().map(speed).collect()))
}

fn runs_per_second(run: &Run) -> Result<f64> {
    // It asks for a database that is not there.
    ["", "-wal", "-shm", "-journal"].iter().for_each(|suffix| {
        let _ = std::fs::remove_file(format!("{}{suffix}", run.database.display()));
    });
    let mut command = Command::new(&run.program);
    command.args(["--size", run.size, "--journal", "wal"]).args((!run.syncs).then_some("--nosync"));
    if let Some((library, pool)) = &run.ours {
        command.env("FERRITE_VFS", library).env("FERRITE_POOL", pool);
    }
    let said = program::output(command.arg(&run.database))?;
    let total = said.lines().find_map(|line| line.trim().strip_prefix("TOTAL"));
    let seconds = total.and_then(|rest| rest.trim_matches(|c: char| !c.is_ascii_digit()).parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    seconds.map(|seconds| 1.0 / seconds).ok_or_else(|| Error::Server { who: "speedtest1".into(), what: said })
}
