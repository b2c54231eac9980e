//! The service "pool": requests about the pool as a whole.

use std::path::PathBuf;

use ferrite_pool::{Failure, Progress, backup, check};
use serde::{Deserialize, Serialize};

use super::{POOL, parse, reply};
use crate::namespace_check::NamedPlaces;
use crate::pool_owner::OwnerCore;
use crate::{PoolReport, ServiceCall, ServiceReply, TypedRequest, WearReport, machine};

/// A request of the service "pool".
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum PoolRequest {
    /// Describes the pool: a [`PoolReport`].
    Info,
    /// Checks the pool: a check report.
    Check,
    /// Counts writes: a [`WearReport`].
    Wear {
        /// How many of the most written pages to list.
        top: usize,
    },
    /// Writes a backup to a file.
    Backup {
        /// The absolute path of the image.
        #[serde(with = "crate::paths::exact")]
        to: PathBuf,
        /// True if the power fails: no client is waited for.
        #[serde(default)]
        now: bool,
        /// The image's identity; a random one without it.
        #[serde(default)]
        image: Option<[u8; 16]>,
    },
    /// Lists the metrics of the services.
    Metrics,
}

impl TypedRequest for PoolRequest {
    const SERVICE: &'static str = POOL;

    fn places(&self) -> NamedPlaces<'_> {
        match self {
            Self::Backup { to, .. } => NamedPlaces::of_paths([to.as_path()]),
            _ => NamedPlaces::default(),
        }
    }
}

/// A metric, as it is reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MetricReport {
    name: String,
    help: String,
    value: f64,
}

/// Does what `call` asks.
pub(crate) fn answer(owner: &OwnerCore, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
    let ServiceCall { request, view, progress, .. } = call;
    let request: PoolRequest = parse(POOL, request)?;
    view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
    match request {
        PoolRequest::Info => reply(&report(owner)),
        PoolRequest::Check => {
            let mut watch = |progressed: Progress| _ = progress(progressed);
            reply(&check::check_open(owner.pool(), &owner.registry().owners(), &mut watch))
        }
        PoolRequest::Wear { top } => {
            let counted = owner.memory().counted.as_ref().ok_or_else(|| {
                Failure::refused("writes are not counted: start the pool's owner with --wear page or --wear line")
            })?;
            reply(&WearReport::from(&counted.wear(top)))
        }
        PoolRequest::Backup { to, now, image } => {
            owner.running().iter().try_for_each(|service| service.refuse_own(&to))?;
            let write = if now { backup::save_to } else { backup::backup_to };
            let image = image.map_or_else(machine::random_uuid, Ok).map_err(Failure::failed)?;
            reply(&write(owner.pool(), &to, image, progress)?)
        }
        PoolRequest::Metrics => {
            let metrics = owner.running().iter().flat_map(|service| service.metrics());
            let reports = metrics.map(|it| MetricReport { name: it.name, help: it.help, value: it.value });
            reply(&reports.collect::<Vec<_>>())
        }
    }
}

/// Describes the pool of `owner`.
pub(crate) fn report(owner: &OwnerCore) -> PoolReport {
    let pool = owner.pool();
    PoolReport {
        uuid: ferrite_pool::show_uuid(&pool.superblock().uuid),
        version: pool.superblock().version,
        path: owner.path().to_owned(),
        medium: owner.memory().line(&pool.survival()),
        survives: crate::SurvivalReport::of(pool),
        owner_pid: None,
        usage: pool.usage(),
        tags: pool.tags().len() as u64,
    }
}
