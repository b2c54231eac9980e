//! Databases' commits (scm-flash-backed-dram.txt, table 1 and figure 7): updates that are durable when they return, on
//! Ferrite strict and relaxed, on this machine's disk, a simulated SSD and hard disk, and where nothing is durable.

use crate::Result;
use crate::media::disks::{HDD, OWN, SSD};
use crate::options::{BenchOptions, Length, ProgressWatch};
use crate::report::{BenchReport, ChartMeasure, PaperClaim, claim};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};
use crate::verdict::{VerdictEntry, figure, figures, line};

mod appends;
mod places;
mod postgres;
mod redis;
mod speedtest;
mod sqlite;
mod user_mount;

use appends::{BARE, GROUP};
use places::DatabasePlaces;
use redis::WITHOUT;

/// Durable on return.
const STRICT: &str = "ferrite, strict";
/// Durable on return, by a program that stores into the pool itself.
const RUN: &str = "ferrite run, strict";
/// Buffered on return, by such a program.
const RUN_RELAXED: &str = "ferrite run, relaxed";
/// Buffered on return.
const RELAXED: &str = "ferrite, relaxed";
/// The file system or the database never waits, and nothing survives a power cut.
const NOTHING: &str = "tmpfs, no syncs";
/// The database on tmpfs, synced as if it were a disk: the calls alone.
const SYNCED: &str = "tmpfs, FULL";
/// An ordinary file system on a disk of ours.
const DISK: &str = "ext4 on a disk of ferrite";

/// Milliseconds that one slice of a database is expected to take, with its start.
const SLICE_MS: u64 = 700;

/// The durations of the experiment.
#[derive(Clone, Copy, Debug)]
struct CommitPlan {
    rounds: usize,
    /// Seconds that a slice should take.
    slice: f64,
    /// Transactions of the first slice of a subject, which finds out its speed.
    trial: u64,
    /// Rows of PostgreSQL's smallest table.
    branches: u64,
}

impl CommitPlan {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { rounds: 9, slice: 0.8, trial: 60, branches: 4 },
            Length::Quick => Self { rounds: 3, slice: 0.25, trial: 30, branches: 1 },
            Length::Smoke => Self { rounds: 1, slice: 0.0, trial: 4, branches: 1 },
        }
    }
}

/// A subject of a case: runs a number of transactions, and returns how many it ran a second.
struct CommitSubject<'a> {
    name: &'static str,
    run: Box<dyn FnMut(u64) -> Result<f64> + 'a>,
}

impl<'a> CommitSubject<'a> {
    fn new(name: &'static str, run: impl FnMut(u64) -> Result<f64> + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// Each slice has as many transactions as the speed of the one before allows.
    fn subject(mut self, plan: CommitPlan) -> BenchSubject<'a> {
        let mut count = plan.trial;
        BenchSubject::new(self.name, move |_| {
            let speed = (self.run)(count)?;
            count = ((speed * plan.slice) as u64).clamp(plan.trial, 200_000);
            Ok(speed)
        })
    }
}

/// The subjects of a case, or why the case is left out.
type CommitSubjects<'a> = Result<std::result::Result<Vec<CommitSubject<'a>>, String>>;

/// Makes the subjects of a case.
type MakeSubjects = for<'a> fn(&'a DatabasePlaces, &BenchOptions, CommitPlan) -> CommitSubjects<'a>;

/// Every database.
const CASES: [(&str, MakeSubjects); 5] = [
    ("SQLite update", sqlite::committers),
    ("SQLite speedtest1", speedtest::committers),
    ("Redis SET, 1 client", |places, _, _| redis::committers(places, 1)),
    ("Redis SET, 50 clients", |places, _, _| redis::committers(places, 50)),
    ("PostgreSQL update", postgres::committers),
];

/// Runs the experiment.
pub fn run(options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
    let plan = CommitPlan::of(options.length);
    let total_ms = 36 * SLICE_MS * (plan.rounds as u64 + 1);
    let mut session = BenchSession::new("db-log", &PAPER, total_ms, options, on_progress);
    session.announce("making disks")?;
    let places = DatabasePlaces::new(&mut session)?;
    appends::run(&mut session, &places, plan)?;
    let mut cases = Vec::new();
    for (case, make) in CASES.into_iter().filter(|(case, _)| options.wants(case)) {
        session.announce(&format!("preparing {case}"))?;
        match make(&places, options, plan)? {
            Ok(committers) => {
                let race = Race { case, unit: "/s", rounds: plan.rounds, slice_ms: SLICE_MS, beside: STRICT };
                session.race(&race, committers.into_iter().map(|one| one.subject(plan)).collect())?;
                cases.push(case.to_owned());
            }
            Err(why) => session.left_out(case, why),
        }
    }
    session.chart("Commits beside those of Ferrite, strict (figure 7)", ChartMeasure::Ratio, cases);
    Ok(session.end(VERDICT, None))
}

/// The commits of strict beside the commits of each subject.
const COMMITS: &[VerdictEntry] = &[
    figure("relaxed", RELAXED).inverse().paper("1"),
    figure("no syncs on tmpfs", NOTHING).inverse(),
    figure("ext4 on a disk of ours", DISK).inverse(),
    figure("this machine's disk", OWN).inverse(),
    figure("the SSD", SSD).inverse().paper("1.9"),
    figure("the hard disk", HDD).inverse().paper("332"),
];

const VERDICT: &[VerdictEntry] = &[
    line("SQLite update, commits of strict beside", "SQLite update"),
    figures(COMMITS),
    line("SQLite speedtest1, runs of strict beside", "SQLite speedtest1"),
    figures(COMMITS),
    line("Redis SET by 1 client, strict beside", "Redis SET, 1 client"),
    figures(COMMITS),
    line("Redis SET by 50 clients, strict beside", "Redis SET, 50 clients"),
    figures(COMMITS),
    line("PostgreSQL update, commits of strict beside", "PostgreSQL update"),
    figures(COMMITS),
    line("Redis SET under ferrite run beside no log", "Redis SET, "),
    figure("1 client", RUN).case("1 client").beside(WITHOUT),
    figure("50 clients", RUN).case("50 clients").beside(WITHOUT),
    line("PostgreSQL update under ferrite run", "PostgreSQL update"),
    figure("strict beside relaxed", RUN).beside(RUN_RELAXED),
    line("a record of 64 bytes beside a bare store and fence", "append 64 B"),
    figure("strict", STRICT).beside(BARE),
    figure("relaxed", RELAXED).beside(BARE),
    figure("16 to a fence", GROUP).beside(BARE),
];

const PAPER: [PaperClaim; 4] = [
    claim("5.3", 1.0, "updates a second, relaxed beside strict"),
    claim("table 1", 1.9, "latency of an update on the fastest SSD beside FB-DRAM"),
    claim("table 1", 2.9, "latency of an update on the PCM drive beside FB-DRAM"),
    claim("table 1", 332.0, "latency of an update on the hard disk beside FB-DRAM"),
];

#[cfg(test)]
mod tests;
