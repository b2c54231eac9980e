//! Databases' commits (scm-flash-backed-dram.txt, table 1 and figure 7): updates that are durable when they return, on
//! Ferrite strict and relaxed, on this machine's disk, a simulated SSD and hard disk, and where nothing is durable.

use crate::Result;
use crate::media::disks::{HDD, OWN, SSD};
use crate::options::{BenchOptions, Length};
use crate::report::claim;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Experiment, Race};
use crate::verdict::{TableEntry, figure, figures, line, ratios};

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
        Self {
            rounds: length.pick([9, 3, 1]),
            slice: length.pick([0.8, 0.25, 0.0]),
            trial: length.pick([60, 30, 4]),
            branches: length.pick([4, 1, 1]),
        }
    }
}

/// A subject that runs a number of transactions by `run`, which returns how many it ran a second. Each slice has as many
/// as the speed of the one before allows.
fn committer<'a>(
    name: &'static str,
    plan: CommitPlan,
    mut run: impl FnMut(u64) -> Result<f64> + 'a,
) -> BenchSubject<'a> {
    let mut count = plan.trial;
    BenchSubject::new(name, move |_| {
        let speed = run(count)?;
        count = ((speed * plan.slice) as u64).clamp(plan.trial, 200_000);
        Ok(speed)
    })
}

/// The subjects of a case, or why the case is left out.
type Committers<'a> = Result<std::result::Result<Vec<BenchSubject<'a>>, String>>;

/// Makes the subjects of a case.
type MakeCommitters = for<'a> fn(&'a DatabasePlaces, &BenchOptions, CommitPlan) -> Committers<'a>;

/// Every database.
const CASES: [(&str, MakeCommitters); 5] = [
    ("SQLite update", sqlite::committers),
    ("SQLite speedtest1", speedtest::committers),
    ("Redis SET, 1 client", |places, _, plan| redis::committers(places, plan, 1)),
    ("Redis SET, 50 clients", |places, _, plan| redis::committers(places, plan, 50)),
    ("PostgreSQL update", postgres::committers),
];

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let plan = CommitPlan::of(options.length);
    session.announce("making disks")?;
    let places = DatabasePlaces::new(session)?;
    appends::run(session, &places, plan)?;
    for (case, make) in session.wanted(CASES, |(case, _)| *case) {
        session.announce(&format!("preparing {case}"))?;
        match make(&places, options, plan)? {
            Ok(subjects) => {
                let race = Race { case, unit: "/s", rounds: plan.rounds, slice_ms: SLICE_MS, beside: STRICT };
                session.race(&race, subjects)?;
            }
            Err(why) => session.left_out(case, why),
        }
    }
    Ok(())
}

/// The commits of strict beside the commits of each subject.
const COMMITS: &[TableEntry] = &[
    figure("relaxed", RELAXED).inverse().paper("1"),
    figure("no syncs on tmpfs", NOTHING).inverse(),
    figure("ext4 on a disk of ours", DISK).inverse(),
    figure("this machine's disk", OWN).inverse(),
    figure("the SSD", SSD).inverse().paper("1.9"),
    figure("the hard disk", HDD).inverse().paper("332"),
];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "db-log",
    about: "commits of SQLite, Redis and PostgreSQL, strict and relaxed, beside disks (flash-backed DRAM, table 1, figure 7)",
    expected_ms: [252_000, 101_000, 50_000],
    run,
    verdict: &[
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
    ],
    paper: &[
        claim("5.3", 1.0, "updates a second, relaxed beside strict"),
        claim("table 1", 1.9, "latency of an update on the fastest SSD beside FB-DRAM"),
        claim("table 1", 2.9, "latency of an update on the PCM drive beside FB-DRAM"),
        claim("table 1", 332.0, "latency of an update on the hard disk beside FB-DRAM"),
    ],
    charts: &[ratios("Commits beside those of Ferrite, strict (figure 7)", "*").unit("/s")],
};

#[cfg(test)]
mod tests;
