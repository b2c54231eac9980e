//! Databases' commits (scm-flash-backed-dram.txt, table 1 and figure 7): updates that are durable when they return, on
//! Ferrite strict and relaxed, on this machine's disk, a simulated SSD and hard disk, and where nothing is durable.

use crate::options::{Length, OnProgress, Options};
use crate::report::{Claim, Measure, Report, rows};
use crate::rounds::{self, Series, Subject as Racer};
use crate::session::{Session, Subject};
use crate::{Result, verdict};

mod appends;
mod field;
mod household;
mod postgres;
mod redis;
mod speedtest;
mod sqlite;
mod told;

use field::Field;

/// Durable on return.
const STRICT: &str = "ferrite, strict";
/// The same, by a program that stores into the pool itself.
const RUN: &str = "ferrite run, strict";
/// By such a program, buffered on return.
const RUN_RELAXED: &str = "ferrite run, relaxed";
/// Buffered on return.
const RELAXED: &str = "ferrite, relaxed";
/// The file system or the database never waits; nothing survives the power.
const NOTHING: &str = "tmpfs, no syncs";
/// An ordinary file system on a disk of ours.
const DISK: &str = "ext4 on a disk of ferrite";
const OWN: &str = "this machine's disk";
const SSD: &str = "SSD (X25-E, simulated)";
const HDD: &str = "HDD (7200 rpm, simulated)";

/// Milliseconds that one slice of a database is reckoned to take, with its start.
const SLICE_MS: u64 = 700;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: usize,
    /// Seconds that a slice should take.
    slice: f64,
    /// Transactions by which a subject's speed is found out.
    trial: u64,
    /// Rows of PostgreSQL's smallest table.
    branches: u64,
}

impl Plan {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { rounds: 9, slice: 0.8, trial: 60, branches: 4 },
            Length::Quick => Self { rounds: 3, slice: 0.25, trial: 30, branches: 1 },
            Length::Smoke => Self { rounds: 1, slice: 0.0, trial: 4, branches: 1 },
        }
    }
}

/// Transactions a second of one subject.
type Speed<'a> = Box<dyn FnMut(u64) -> Result<f64> + 'a>;

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plan = Plan::of(options.length);
    let total_ms = 36 * SLICE_MS * (plan.rounds as u64 + 1);
    let subject = Subject { experiment: "db-log", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    session.tell("making disks")?;
    let field = Field::new(options)?;
    let mut notes = field.notes.clone();
    appends::run(&mut session, &field, plan, &mut notes)?;
    let mut cases = Vec::new();
    for (case, make) in [
        ("SQLite update", sqlite::racers as Make),
        ("SQLite speedtest1", speedtest::racers as Make),
        ("Redis SET, 1 client", redis::racers_alone as Make),
        ("Redis SET, 50 clients", redis::racers_many as Make),
        ("PostgreSQL update", postgres::racers as Make),
    ] {
        if !options.wants(case) {
            continue;
        }
        session.tell(&format!("preparing {case}"))?;
        match make(&field, options, plan)? {
            Ok(racers) => {
                race(&mut session, case, plan, racers)?;
                cases.push(case.to_owned());
            }
            Err(why) => notes.push(format!("{case} was left out: {why}")),
        }
    }
    session.chart("Commits beside those of Ferrite, strict (figure 7)", Measure::Ratio, cases);
    let parts = told::parts(&session.report);
    let verdict = verdict::join(&session.report, parts, notes);
    Ok(session.end(verdict))
}

/// The subjects of a case, or why there are none.
type Make =
    for<'a> fn(&'a Field, &Options, Plan) -> Result<std::result::Result<Vec<(&'static str, Speed<'a>)>, String>>;

/// Each subject's slice has as many transactions as its speed allows, found out at first.
fn race(session: &mut Session<'_>, case: &str, plan: Plan, racers: Vec<(&'static str, Speed<'_>)>) -> Result<()> {
    let mut subjects: Vec<Racer<'_>> = racers
        .into_iter()
        .map(|(name, mut speed)| {
            let mut count = plan.trial;
            Racer::new(name, move |_| {
                let found = speed(count)?;
                count = ((found * plan.slice) as u64).clamp(plan.trial, 200_000);
                Ok(found)
            })
        })
        .collect();
    let steps = &mut session.steps;
    let series = rounds::run(&mut subjects, plan.rounds, &mut || steps.step(case, SLICE_MS))?;
    report(session, case, "/s", &series, STRICT);
    Ok(())
}

/// Each beside `beside`, where that ran.
fn report(session: &mut Session<'_>, case: &str, unit: &'static str, series: &[Series], beside: &str) {
    let base = series.iter().find(|one| one.name == beside).unwrap_or(&series[0]);
    session.report.rows.extend(rows(case, unit, series, base));
}

const PAPER: [Claim; 4] = [
    Claim { place: "5.3", what: "updates a second, relaxed beside strict", ratio: 1.0 },
    Claim { place: "table 1", what: "latency of an update on the fastest SSD beside FB-DRAM", ratio: 1.9 },
    Claim { place: "table 1", what: "latency of an update on the PCM drive beside FB-DRAM", ratio: 2.9 },
    Claim { place: "table 1", what: "latency of an update on the hard disk beside FB-DRAM", ratio: 332.0 },
];
