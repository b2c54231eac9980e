//! The service "pool": requests about the pool as a whole.

use std::path::{Path, PathBuf};

use ferrite_pool::{Failure, Progress, backup, check};
use serde::{Deserialize, Serialize};

use super::{POOL, parse, reply};
use crate::namespace_check::NamedPlaces;
use crate::pool_owner::OwnerCore;
use crate::{PoolReport, ServiceCall, ServiceReply, TypedRequest, WearReport, machine};

/// The treatment of what tags keep outside of the pool, such as pages of files on SSDs, by a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackupOutside {
    /// The backup is refused if there is any.
    #[default]
    Refuse,
    /// It is in no image.
    Leave,
    /// It is copied to files beside the image.
    Copy,
}

/// A backup that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackupReport {
    /// The image.
    #[serde(flatten)]
    pub image: backup::ImageSummary,
    /// The files with what lies outside of the pool.
    #[serde(default)]
    pub outside: Vec<PathBuf>,
}

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
        /// The treatment of what tags keep outside of the pool.
        #[serde(default)]
        outside: BackupOutside,
    },
    /// Lists what the pool and its services count: [`crate::Metric`]s.
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
        PoolRequest::Backup { to, now, image, outside } => {
            owner.running().iter().try_for_each(|service| service.refuse_own(&to))?;
            let image = image.map_or_else(machine::random_uuid, Ok).map_err(Failure::failed)?;
            if now {
                let image = backup::save_to(owner.pool(), &to, image, progress)?;
                owner.history().note_image();
                return reply(&BackupReport { image, outside: Vec::new() });
            }
            let report = back_up(owner, &to, image, outside, progress)?;
            owner.history().note_image();
            reply(&report)
        }
        PoolRequest::Metrics => reply(&owner.metrics()),
    }
}

/// Writes a backup whose image is `to`.
fn back_up(
    owner: &OwnerCore,
    to: &Path,
    image: [u8; 16],
    outside: BackupOutside,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<BackupReport, Failure> {
    let running = owner.running();
    let mut held = Vec::new();
    match outside {
        BackupOutside::Refuse => refuse_outside(owner)?,
        BackupOutside::Leave => {}
        BackupOutside::Copy => {
            for service in running.iter() {
                held.extend(service.hold_outside()?);
            }
        }
    }
    let mut copied = Vec::new();
    let image = backup::backup_with(owner.pool(), to, image, progress, |progress| {
        held.iter().try_for_each(|held| {
            copied.extend(held.copy(to, progress)?);
            Ok::<_, Failure>(())
        })
    })?;
    Ok(BackupReport { image, outside: copied })
}

/// Refuses a backup that would lack what lies outside of the pool.
fn refuse_outside(owner: &OwnerCore) -> Result<(), Failure> {
    let mut lacking = Vec::new();
    for service in owner.running().iter() {
        lacking.extend(service.outside()?);
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = lacking.iter().map(|(name, bytes)| format!("{bytes} bytes of {name:?}")).collect();
    Err(Failure::refused(format!(
        "{} are on SSDs only, and no image has them: --with-ssd copies them to files beside the image, --without-ssd \
         leaves them out",
        named.join(" and ")
    )))
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
        kept: owner.kept(),
    }
}
