//! PostgreSQL with all of its cluster on the disk that is measured, driven by pgbench's simple update.

use std::path::PathBuf;
use std::sync::Arc;

use super::places::{DISK_BYTES, DatabasePlaces};
use super::user_mount::UserMount;
use super::{CommitPlan, Committers, NOTHING, RELAXED, RUN, RUN_RELAXED, STRICT, committer};
use crate::loads::{AppSize, PostgresCluster, PostgresServer, transactions_per_s};
use crate::options::BenchOptions;
use crate::rounds::BenchSubject;
use crate::{Result, program};

const CLIENTS: &str = "4";

/// The subjects, or why the case is left out.
pub fn committers<'a>(places: &'a DatabasePlaces, options: &BenchOptions, plan: CommitPlan) -> Committers<'a> {
    let Some(ours) = places.synced.get(STRICT) else { return Ok(Err("nothing can be mounted".into())) };
    let size = AppSize { branches: plan.branches, orders: 10, ..AppSize::of(options.length) };
    let Some(cluster) = PostgresCluster::make(&places.memory, &size)? else {
        return Ok(Err("it needs postgresql and postgresql-contrib".into()));
    };
    let cluster = Arc::new(cluster);
    let memory = places.memory.folder("postgres")?;
    let strict = places.synced.entries.iter().map(|(name, home)| (*name, home.clone(), "on"));
    let all = strict.chain([(RELAXED, ours.clone(), "off"), (NOTHING, memory, "off")]);
    let (mut committers, mut copied): (Vec<BenchSubject<'a>>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for (name, home, synchronous) in all {
        if !copied.contains(&home) {
            cluster.copy_to(&home)?;
            copied.push(home.clone());
        }
        let cluster = Arc::clone(&cluster);
        committers.push(committer(name, plan, move |count| speed(&cluster.start_in(&home)?, synchronous, count)));
    }
    committers.extend(direct(&cluster, options, plan)?);
    Ok(Ok(committers))
}

/// The subjects under `ferrite run`, if there is that program and PostgreSQL's user can mount.
fn direct<'a>(
    cluster: &Arc<PostgresCluster>,
    options: &BenchOptions,
    plan: CommitPlan,
) -> Result<Vec<BenchSubject<'a>>> {
    let Some(ferrite) = &options.ferrite else { return Ok(Vec::new()) };
    let Some(mount) = UserMount::new(options, ferrite, DISK_BYTES)? else { return Ok(Vec::new()) };
    cluster.copy_by(mount.command(), &mount.home())?;
    let mount = Arc::new(mount);
    let subject = |(name, synchronous)| {
        let (cluster, mount) = (Arc::clone(cluster), Arc::clone(&mount));
        let run = move |count| speed(&cluster.start_by(mount.run(), &mount.home())?, synchronous, count);
        committer(name, plan, run)
    };
    Ok([(RUN, "on"), (RUN_RELAXED, "off")].map(subject).into())
}

/// Runs so many transactions by all clients together; returns how many a second.
fn speed(server: &PostgresServer<'_>, synchronous: &str, count: u64) -> Result<f64> {
    let mut command = server.client("pgbench");
    command.env("PGOPTIONS", format!("-c synchronous_commit={synchronous}"));
    let each = (count / 4).max(1).to_string();
    let output = program::output(command.args(["-n", "-N", "-c", CLIENTS, "-j", "1", "-t", &each]))?;
    transactions_per_s(&output).ok_or_else(|| program::strange("pgbench", &output))
}
