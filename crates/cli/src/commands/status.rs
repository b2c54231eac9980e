//! `ferrite status`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ferrite_cache::{CacheReport, CacheRequest};
use ferrite_daemon::disks::{DiskReport, DiskRequest};
use ferrite_daemon::filesystems::{FsReport, FsRequest};
use ferrite_daemon::mounts;
use ferrite_owner::paths::{in_line, quoted};
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{OwnerClient, PoolReport, ServiceRequest, TypedRequest};
use ferrite_pool::{FailureKind, Holder};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cache::show_line;
use super::print;
use crate::outcome::Outcome;
use crate::serving_processes::{self, ServingProcess};
use crate::size;

/// The time limit of one request to an owner.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Show which pools are served, mounted and attached now, by which process, and how full they are
///
/// Shows the pools of this user's processes, and as root the pools of all users. A pool that no process serves is not
/// shown: see `ferrite pool info`. `ferrite stat` shows what a pool does: requests, bytes, errors and latencies.
#[derive(Args)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The served pools, and the mounts left by killed servers.
#[derive(Serialize)]
struct StatusReport {
    pools: Vec<ServedPool>,
    left: Vec<LeftMount>,
}

/// A pool and the process that serves it.
#[derive(Serialize)]
struct ServedPool {
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    path: PathBuf,
    owner_pid: u32,
    /// The process's command line.
    command: Option<String>,
    /// The file that the process's standard error goes to, if it is one.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    log: Option<PathBuf>,
    /// The pool's content, if the process answers.
    #[serde(flatten)]
    holds: PoolContent,
}

/// The content of a pool. All fields are empty if the owner does not answer.
#[derive(Default, Serialize)]
struct PoolContent {
    total_bytes: Option<u64>,
    free_bytes: Option<u64>,
    caches: Vec<CacheReport>,
    disks: Vec<ServedDisk>,
    file_systems: Vec<ServedFs>,
}

#[derive(Serialize)]
struct ServedDisk {
    name: String,
    size_bytes: u64,
    in_use: bool,
    reached_at: Vec<String>,
}

#[derive(Serialize)]
struct ServedFs {
    name: String,
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    mounted_on: Option<PathBuf>,
}

/// A mount for which no process answers any more.
#[derive(Serialize)]
struct LeftMount {
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    mounted_on: PathBuf,
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pool: PathBuf,
}

impl Status {
    /// Prints the status. An empty list is not a failure.
    pub fn run(self) -> Outcome {
        let pools = serving_processes::all().into_iter().map(ServedPool::of).collect();
        let left = mounts::left().into_iter().map(|(mounted_on, pool)| LeftMount { mounted_on, pool }).collect();
        print(self.json, &StatusReport { pools, left }, show)
    }
}

impl ServedPool {
    fn of(owner: ServingProcess) -> Self {
        let ServingProcess { pid, path, client } = owner;
        let command = Holder::seen(&path).and_then(|holder| holder.command);
        let log = crate::log::of(pid);
        let holds = client.and_then(|client| PoolContent::asked(client).ok()).unwrap_or_default();
        Self { path, owner_pid: pid, command, log, holds }
    }
}

impl PoolContent {
    fn asked(mut client: OwnerClient) -> Outcome<Self> {
        client.give_up_after(TIME_LIMIT);
        let pool: PoolReport = ask(&mut client, &PoolRequest::Info)?;
        let disks: Vec<DiskReport> = ask_if_served(&mut client, &DiskRequest::List)?;
        let caches: Vec<CacheReport> = ask_if_served(&mut client, &CacheRequest::List)?;
        let file_systems: Vec<FsReport> = ask_if_served(&mut client, &FsRequest::List)?;
        let disk = |it: DiskReport| ServedDisk {
            in_use: it.open.is_some_and(|open| open.in_use),
            name: it.name,
            size_bytes: it.size_bytes,
            reached_at: it.reached_at,
        };
        let mounted = |it: FsReport| ServedFs { name: it.name, mounted_on: it.mounted_on };
        Ok(Self {
            total_bytes: Some(pool.usage.total_bytes),
            free_bytes: Some(pool.usage.free_bytes),
            caches,
            disks: disks.into_iter().map(disk).collect(),
            file_systems: file_systems.into_iter().map(mounted).collect(),
        })
    }
}

fn ask<T: DeserializeOwned>(client: &mut OwnerClient, request: &impl TypedRequest) -> Outcome<T> {
    let answer = client.call(ServiceRequest::of(request), &mut |_| true)?.0;
    Ok(serde_json::from_value(answer)?)
}

/// Sends a request like [`ask`], and returns the default value if the owner does not link the service.
fn ask_if_served<T: DeserializeOwned + Default>(client: &mut OwnerClient, request: &impl TypedRequest) -> Outcome<T> {
    match client.call(ServiceRequest::of(request), &mut |_| true) {
        Err(error) if error.kind() == FailureKind::NotServed => Ok(T::default()),
        answer => Ok(serde_json::from_value(answer?.0)?),
    }
}

fn show(report: &StatusReport) -> String {
    let mut text: String = report.pools.iter().map(ServedPool::show).collect();
    if report.pools.is_empty() {
        text += "nothing is served: `ferrite up` serves a pool\n";
    }
    for LeftMount { mounted_on, .. } in &report.left {
        let (at, typed) = (in_line(mounted_on), quoted(mounted_on));
        text += &format!("{at} is still mounted by a server that has ended: `ferrite fs unmount {typed}`\n");
    }
    text
}

impl ServedPool {
    fn show(&self) -> String {
        let PoolContent { total_bytes, free_bytes, caches, disks, file_systems } = &self.holds;
        let space = match total_bytes.zip(*free_bytes) {
            Some((total, free)) => format!("{}, {} free", size::show(total), size::show(free)),
            None => "its owner does not answer".into(),
        };
        let command = self.command.as_ref().map(|command| format!(" ({command})")).unwrap_or_default();
        let mut text = format!("pool      {} ({space})\n", in_line(&self.path));
        text += &format!("          served by process {}{command}\n", self.owner_pid);
        text += &self.log.as_deref().map(|log| format!("          log in {}\n", in_line(log))).unwrap_or_default();
        text.extend(caches.iter().map(|cache| format!("cache     {}", show_line(cache))));
        for disk in disks {
            let used = if disk.in_use { ", in use" } else { "" };
            text += &format!("{:<9} disk of {}{used}\n", disk.name, size::show(disk.size_bytes));
            text.extend(disk.reached_at.iter().map(|at| format!("          {at}\n")));
        }
        for fs in file_systems {
            let at = fs.mounted_on.as_deref().map(|at| format!("mounted on {}", in_line(at)));
            text += &format!("{:<9} {}\n", fs.name, at.unwrap_or_else(|| "file system, not mounted".into()));
        }
        text
    }
}
