//! PostgreSQL with all of its cluster on the disk that is measured, driven by pgbench's simple update.

use std::path::PathBuf;

use super::field::Field;
use super::{Plan, RELAXED, STRICT, Speed};
use crate::loads::{Cluster, Size};
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
    let cluster = std::sync::Arc::new(cluster);
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
        let cluster = std::sync::Arc::clone(&cluster);
        racers.push((name, Box::new(move |count| run(&cluster, &home, synchronous, count))));
    }
    Ok(Ok(racers))
}

/// Transactions a second, of so many of all clients.
fn run(cluster: &Cluster, home: &std::path::Path, synchronous: &str, count: u64) -> Result<f64> {
    let server = cluster.start_in(home)?;
    let mut command = server.client("pgbench");
    command.env("PGOPTIONS", format!("-c synchronous_commit={synchronous}"));
    let each = (count / 4).max(1).to_string();
    let said = program::output(command.args(["-n", "-N", "-c", CLIENTS, "-j", "1", "-t", &each]))?;
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let speed = line.and_then(|line| line.split(' ').next()?.parse().ok());
    speed.ok_or_else(|| Error::Server { who: "pgbench".into(), what: format!("it says {said}") })
}
