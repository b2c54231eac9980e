//! `ferrite wal`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use ferrite_daemon::registry;
use ferrite_memory::monotonic_ns;
use ferrite_pool::Progress;
use ferrite_sqlite_log::{
    DatabaseEntry, DatabasePool, Error, Forgotten, GiveBack, GiveBackProgress, forget, log_of_file,
};
use serde::Serialize;

use super::{WholePool, print};
use crate::bar::Bar;
use crate::command_pool;
use crate::host::{self, absolute};
use crate::outcome::Outcome;
use crate::pool_argument::InPool;
use crate::size;
use crate::stop;

/// Databases whose logs are in a pool: see them, and give them back to the databases
#[derive(Subcommand)]
pub enum Wal {
    /// List the databases whose logs are in a pool, with what is in each log and who has it open
    Stat(WholePool),
    /// Write logs to files beside their databases, so that any program can open them; nothing is lost on the way
    ///
    /// A database that was closed in order needs none of this. One whose programs were killed says "file is not a
    /// database" to those that do not know of the pool, until it was opened with Ferrite's VFS and closed, or was
    /// drained. A database that is in use is refused, and the others are drained. Interrupted, run it again.
    Drain(Drain),
    /// Give up the log of a database that is lost, or not wanted: it goes on with what is in its file
    ///
    /// For a database that says that its log is in another pool, where that pool is gone; and for the log of one that
    /// was deleted or replaced. What was committed since the last checkpoint is lost with the log. If it was lost
    /// during a checkpoint or, without a write-ahead log, during a transaction, a part of it is in the file: `pragma
    /// integrity_check` shows the damage. Name the pool that has the log, or else any pool to open the database with.
    /// If another pool still has the log, drain it there: after this command it no longer fits.
    ///
    /// If the pool has an older log than the file needs, only that log is given up: the file is as new as it was.
    Forget(Forget),
}

#[derive(Args)]
pub struct DrainWords {
    /// The database files to give their logs back to [default: all that have one in the pool]
    database: Vec<PathBuf>,
}

#[derive(Args)]
pub struct Drain {
    #[command(flatten)]
    at: InPool<DrainWords>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ForgetWords {
    /// The database file
    database: PathBuf,
}

#[derive(Args)]
pub struct Forget {
    #[command(flatten)]
    at: InPool<ForgetWords, true>,
    /// Lose what is in the log: so many bytes, which the refusal without this option names
    #[arg(long, value_name = "BYTES")]
    lose: Option<u64>,
}

/// A database that got its log back.
#[derive(Serialize)]
struct Drained {
    path: String,
    copied_bytes: u64,
}

impl Wal {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Stat(stat) => show_all(&stat),
            Self::Drain(drain) => drain.run(),
            Self::Forget(forget) => forget.run(),
        }
    }
}

fn show_all(stat: &WholePool) -> Outcome {
    let log_pool = reached(&stat.at.pool.path()?)?;
    let entries: Vec<Compared> = list(&log_pool)?.into_iter().map(|entry| Compared::new(&log_pool, entry)).collect();
    print(stat.json, &entries, |entries| {
        let mut text = format!(
            "{:>12} {:>12} {:>12} {:>10} {:<16} database\n",
            "wal", "journal", "space", "generation", "processes"
        );
        for Compared { entry, refusal } in entries {
            let [wal, journal, space] = [entry.wal_bytes, entry.journal_bytes, entry.space_bytes].map(size::show);
            let processes: Vec<String> = entry.processes.iter().map(u32::to_string).collect();
            let (processes, generation, path) = (processes.join(" "), entry.generation, &entry.path);
            text += &format!("{wal:>12} {journal:>12} {space:>12} {generation:>10} {processes:<16} {path}\n");
            text += &refusal.as_ref().map_or(String::new(), |why| format!("  refused: {why}\n"));
        }
        text
    })
}

/// A log and its comparison with the database file.
#[derive(Serialize)]
struct Compared {
    #[serde(flatten)]
    entry: DatabaseEntry,
    /// The reason why the log and the file do not match.
    refusal: Option<String>,
}

impl Compared {
    fn new(log_pool: &DatabasePool, entry: DatabaseEntry) -> Self {
        // A file that programs have open was compared when they opened it, and changes while it is open.
        let refusal = if entry.processes.is_empty() { entry.refusal(log_pool.path()) } else { None };
        Self { entry, refusal }
    }
}

/// Opens the pool at `path` as its owner, or connects to its owner.
fn reached(path: &Path) -> Outcome<Arc<DatabasePool>> {
    command_pool::look_at(path)?;
    DatabasePool::open(path, registry(), host::random, monotonic_ns).map_err(|error| match error {
        Error::Owner(error) => command_pool::refused(path, error),
        other => other.into(),
    })
}

fn list(log_pool: &DatabasePool) -> Outcome<Vec<DatabaseEntry>> {
    Ok(log_pool.databases()?)
}

impl Drain {
    fn run(self) -> Outcome {
        stop::watch()?;
        let log_pool = reached(&self.at.pool.path()?)?;
        let entries = list(&log_pool)?;
        let paths = match self.at.words.database.as_slice() {
            [] => entries.iter().map(|entry| entry.path.clone()).collect(),
            some => some.iter().map(|path| named(path, &entries)).collect::<Outcome<Vec<_>>>()?,
        };
        let (mut drained, mut refused) = (Vec::new(), Vec::new());
        for path in paths {
            let entry = entries.iter().find(|entry| entry.path == path);
            let total = entry.map_or(0, |entry| entry.wal_bytes + entry.journal_bytes);
            match give_back(&log_pool, &path, total) {
                Ok(copied_bytes) => drained.push(Drained { path, copied_bytes }),
                Err(why) if stop::is_asked() => return Err(why),
                // The other databases still get their logs back.
                Err(why) => refused.push(why.text().to_owned()),
            }
        }
        print(self.json, &drained, |drained| {
            let line = |it: &Drained| format!("{}: {} given back\n", it.path, size::show(it.copied_bytes));
            match drained.is_empty() && refused.is_empty() {
                true => "no log of a database is in the pool: there is nothing to give back\n".into(),
                false => drained.iter().map(line).collect(),
            }
        })?;
        if refused.is_empty() { Ok(()) } else { Err(refused.join("\nferrite: ").into()) }
    }
}

impl Forget {
    fn run(self) -> Outcome {
        let log_pool = reached(&self.at.pool.path()?)?;
        let path = known_as(&self.at.words.database);
        let (forgotten, was_marked) = forget(&log_pool, &path, self.lose)?;
        let lost = match forgotten {
            Forgotten { was_here: false, .. } if !was_marked => {
                return Err(format!(
                    "no log of {path} is in the pool, and its file says of none: see `ferrite wal stat`"
                )
                .into());
            }
            Forgotten { was_here: false, .. } => {
                "which was not in this pool; what was committed since the last checkpoint is lost".into()
            }
            Forgotten { is_of_another: true, lost_bytes, .. } => {
                format!("with {lost_bytes} bytes; the log that its file belongs to is in another pool, and stays")
            }
            Forgotten { lost_bytes: 0, .. } => "which had nothing in it".into(),
            Forgotten { lost_bytes, .. } => format!("with {} that may have been nowhere else", size::show(lost_bytes)),
        };
        say!("{path}: its log is given up, {lost}");
        Ok(())
    }
}

/// Returns the path by which the pool knows the database at `path`. If the file is gone, its folder may still exist.
fn known_as(path: &Path) -> String {
    let by_folder = || Some(absolute(path).ok()?.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let known = path.canonicalize().ok().or_else(by_folder).or_else(|| absolute(path).ok());
    known.map_or_else(|| path.display().to_string(), |path| path.display().to_string())
}

/// Returns the path like [`known_as`], and an error if the pool does not know the database.
fn named(path: &Path, entries: &[DatabaseEntry]) -> Outcome<String> {
    let named = known_as(path);
    // The stamp of its log identifies a renamed database.
    let log = log_of_file(&named);
    match entries.iter().any(|entry| entry.path == named || log.as_ref().is_some_and(|log| *log == entry.log)) {
        true => Ok(named),
        false => Err(format!(
            "no log of {named} is in the pool: see `ferrite wal stat`; where its file says that there is one, that is in \
             another pool, or lost: `ferrite wal forget` gives a lost one up"
        )
        .into()),
    }
}

/// Returns the log of the database at `path` to its file, and returns the number of copied bytes.
fn give_back(log_pool: &Arc<DatabasePool>, path: &str, total: u64) -> Outcome<u64> {
    let mut work = GiveBack::begin(log_pool, path)?;
    let (bar, mut done) = (Bar::new(), 0);
    loop {
        match work.step()? {
            GiveBackProgress::Copied(bytes) => done += bytes,
            GiveBackProgress::Stepped => {}
            GiveBackProgress::Done => return Ok(done),
        }
        if !bar.show(&Progress { what: "draining".into(), done, total }) {
            return Err("interrupted: the log is still in the pool; run it again".into());
        }
    }
}
