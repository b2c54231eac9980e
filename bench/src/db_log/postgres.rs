//! PostgreSQL with all of its cluster on the disk that is measured, driven by pgbench's simple update.

use std::path::PathBuf;
use std::sync::Arc;

use super::field::{DISK_BYTES, Field};
use super::household::Household;
use super::{Plan, RELAXED, RUN, RUN_RELAXED, STRICT, Speed};
use crate::loads::{Cluster, Server, Size};
use crate::options::Options;
use crate::{Error, Result, program};

const CLIENTS: &str = "4";

/// The subjects, or why there are none.
pub fn racers<'a>(
    field: &'a Field,
    options: &Options,
    plan: Plan,
) -> Result<std::result::Result<Vec<(&'static str, Speed<'a>)>, String>> {
    if !field.places.iter().any(|(name, _)| *name == STRICT) {
        return Ok(Err("nothing can be mounted".into()));
    }
    let size = Size { branches: plan.branches, orders: 10, ..Size::of(options.length) };
    let Some(cluster) = Cluster::make(&field.memory, &size)? else {
        return Ok(Err("it needs postgresql and postgresql-contrib".into()));
    };
    let cluster = Arc::new(cluster);
    let memory = field.memory.path("postgres");
    std::fs::create_dir_all(&memory).map_err(Error::io("making a folder"))?;
    let strict = field.places.iter().map(|(name, home)| (*name, home.clone(), "on"));
    let ours = field.places.iter().find(|(name, _)| *name == STRICT).map(|(_, home)| home.clone());
    let relaxed = ours.map(|home| (RELAXED, home, "off"));
    let all = strict.chain(relaxed).chain([(super::NOTHING, memory, "off")]);
    let mut racers: Vec<(&'static str, Speed<'a>)> = Vec::new();
    let mut copied: Vec<PathBuf> = Vec::new();
    for (name, home, synchronous) in all {
        if !copied.contains(&home) {
            cluster.copy_to(&home)?;
            copied.push(home.clone());
        }
        let cluster = Arc::clone(&cluster);
        racers.push((name, Box::new(move |count| speed(&cluster.start_in(&home)?, synchronous, count))));
    }
    racers.extend(direct(&cluster, options)?);
    Ok(Ok(racers))
}

/// Under `ferrite run`, where there is that program and its user can mount.
fn direct<'a>(cluster: &Arc<Cluster>, options: &Options) -> Result<Vec<(&'static str, Speed<'a>)>> {
    let Some(ferrite) = &options.ferrite else { return Ok(Vec::new()) };
    let Some(household) = Household::new(options, ferrite, DISK_BYTES)? else { return Ok(Vec::new()) };
    cluster.copy_by(household.command(), &household.home())?;
    let household = Arc::new(household);
    let racer = |(name, synchronous)| {
        let (cluster, household) = (Arc::clone(cluster), Arc::clone(&household));
        let run = move |count| speed(&cluster.start_by(household.run(), &household.home())?, synchronous, count);
        (name, Box::new(run) as Speed<'a>)
    };
    Ok([(RUN, "on"), (RUN_RELAXED, "off")].map(racer).into())
}

/// Transactions a second, of so many of all clients.
fn speed(server: &Server<'_>, synchronous: &str, count: u64) -> Result<f64> {
    let mut command = server.client("pgbench");
    command.env("PGOPTIONS", format!("-c synchronous_commit={synchronous}"));
    let each = (count / 4).max(1).to_string();
    let said = program::output(command.args(["-n", "-N", "-c", CLIENTS, "-j", "1", "-t", &each]))?;
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let speed = line.and_then(|line| line.split(' ').next()?.parse().ok());
    speed.ok_or_else(|| Error::Server { who: "pgbench".into(), what: format!("it says {said}") })
}
