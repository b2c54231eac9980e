//! SQLite's own shell: rows are made, updated and deleted, each in a transaction of its own, with a write-ahead log.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::places::DatabasePlaces;
use super::{CommitPlan, Committers, NOTHING, RELAXED, STRICT, SYNCED, committer};
use crate::options::BenchOptions;
use crate::{Error, Result, program};

/// The settings of a database.
struct OpenedDatabase {
    /// The first commands of the shell, which open the database.
    opening: String,
    synchronous: &'static str,
}

/// The subjects, or why the case is left out.
pub fn committers<'a>(places: &'a DatabasePlaces, options: &BenchOptions, plan: CommitPlan) -> Committers<'a> {
    let Some(shell) = program::find("sqlite3") else { return Ok(Err("it needs sqlite3".into())) };
    let library = options.ferrite.as_ref().map(|binary| binary.with_file_name("libferrite_sqlite.so"));
    let Some(library) = library.filter(|library| library.is_file()) else {
        return Ok(Err(
            "libferrite_sqlite.so is not beside the program: cargo build --release -p ferrite-sqlite".into()
        ));
    };
    let ours = |name: &str| {
        let path = places.memory.path(name).display().to_string();
        let (library, pool) = (library.with_extension(""), places.pool.path().display());
        format!(".load {}\n.open file:{path}?vfs=ferrite&pool={pool}\n", library.display())
    };
    let plain = |path: PathBuf| format!(".open {}\n", path.display());
    let mut all = vec![
        (STRICT, OpenedDatabase { opening: ours("strict.db"), synchronous: "full" }),
        (RELAXED, OpenedDatabase { opening: ours("relaxed.db"), synchronous: "off" }),
        (NOTHING, OpenedDatabase { opening: plain(places.memory.path("off.db")), synchronous: "off" }),
        (SYNCED, OpenedDatabase { opening: plain(places.memory.path("full.db")), synchronous: "full" }),
    ];
    let others = places.synced.entries.iter().filter(|(name, _)| *name != STRICT);
    all.extend(
        others.map(|(name, home)| (*name, OpenedDatabase { opening: plain(home.join("a.db")), synchronous: "full" })),
    );
    let subject = |(name, opened): (&'static str, OpenedDatabase)| {
        let shell = shell.clone();
        committer(name, plan, move |count| run(&shell, &opened, count))
    };
    Ok(Ok(all.into_iter().map(subject).collect()))
}

/// Runs so many transactions; returns how many a second.
fn run(shell: &Path, opened: &OpenedDatabase, count: u64) -> Result<f64> {
    let doing = Error::io("running sqlite3");
    let child = Command::new(shell).arg("-batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(doing)?;
    let script = script(opened, count);
    let mut stdin = child.stdin.take().expect("piped");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(script.as_bytes()));
        for line in output.lines().map_while(std::result::Result::ok) {
            if matches!(line.as_str(), "go" | "done") {
                times.push(Instant::now());
            }
        }
    });
    let ended = child.wait().map_err(Error::io("running sqlite3"))?;
    match times.as_slice() {
        [go, done] if ended.success() => Ok(count as f64 / (*done - *go).as_secs_f64()),
        _ => Err(Error::server("sqlite3", "it did not run all transactions")),
    }
}

/// The commands: a third each of the transactions makes, changes and deletes a row. Programs that the shell runs mark begin
/// and end, because the shell buffers its own output.
fn script(opened: &OpenedDatabase, count: u64) -> String {
    let mut script = opened.opening.clone();
    let _ = writeln!(script, "pragma journal_mode=wal;\npragma synchronous={};", opened.synchronous);
    script += "create table if not exists t(n integer primary key, text text);\ndelete from t;\n.system echo go\n";
    for number in 0..count {
        let row = number / 3;
        let _ = match number % 3 {
            0 => writeln!(
                script,
                "insert into t values({row}, 'a hundred bytes or so of what somebody wants to keep for good');"
            ),
            1 => writeln!(
                script,
                "update t set text = 'something else, as long as it was before, and not much shorter' where n = {row};"
            ),
            _ => writeln!(script, "delete from t where n = {row} and {row} % 2;"),
        };
    }
    script + ".system echo done\n"
}

#[cfg(test)]
mod tests;
