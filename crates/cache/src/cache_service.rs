//! Caches as a service that a program links.

use std::path::Path;
use std::sync::Arc;

use ferrite_disk::{Clock, Disk};
use ferrite_owner::services::{parse, reply};
use ferrite_owner::{
    Metric, Removal, RunningService, Service, ServiceCall, ServicePool, ServiceReply, SurvivalAnswer, SurvivalReport,
    SurvivalState, TypedRequest, machine,
};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::{Failure, FailureKind, Pool, PoolMember, Tag, TagKind};
use serde_json::Value;

use crate::cache::MemberOpener;
use crate::cache_reports::{CacheStats, CreatedCache, SsdStats};
use crate::cache_requests::{CACHE, CacheRequest, MemberAddress, NewCacheDisk};
use crate::cache_settings::{CacheMode, CacheSettings};
use crate::cache_spec::{CacheSpec, NewDisk, NewSsd};
use crate::cache_stats::weakest;
use crate::cache_walk::walk;
use crate::open_caches::OpenCaches;
use crate::settings_change::SettingsChange;
use crate::{CACHE_KIND, CacheError};

/// The service of caches.
pub struct CacheService {
    opener: Arc<dyn MemberOpener>,
    clock: Arc<dyn Clock>,
}

impl CacheService {
    /// Returns the service, which opens SSDs and disks by `opener`; `clock` is the one of timeouts and rates.
    pub fn new(opener: Arc<dyn MemberOpener>, clock: Arc<dyn Clock>) -> Self {
        Self { opener, clock }
    }
}

impl TagOwner for CacheService {
    fn kind(&self) -> TagKind {
        CACHE_KIND
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        walk(pool, tag, findings);
    }
}

impl Service for CacheService {
    fn name(&self) -> &'static str {
        CACHE
    }

    fn removal(&self) -> Removal {
        Removal::ByCommand { noun: "a cache", command: "ferrite cache remove" }
    }

    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure> {
        Ok(Arc::new(OpenCaches::new(
            Arc::clone(pool.pool),
            Arc::clone(pool.registry),
            pool.running.clone(),
            Arc::clone(&self.opener),
            Arc::clone(&self.clock),
        )))
    }
}

impl RunningService for OpenCaches {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        let ServiceCall { request, view, progress, .. } = call;
        let request: CacheRequest = parse(CACHE, request)?;
        view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
        self.refuse_own_nodes(&request)?;
        match request {
            CacheRequest::List => reply(&self.list()),
            CacheRequest::OpenAll => reply(&self.open_all()),
            CacheRequest::Create { name, disks, ssds, settings, leb_bytes, buffer_bytes, lose } => {
                let new = NewCache { name, disks, ssds, settings, leb_bytes, buffer_bytes, lose };
                reply(&self.create(new)?)
            }
            CacheRequest::Stat { name } => reply(&self.stats(&name)?),
            CacheRequest::Set { name, settings } => reply(&self.set(&name, &settings)?),
            CacheRequest::Check { name, options } => reply(&self.check(&name, &options, progress)?),
            CacheRequest::Clean { name } => reply(&self.clean(&name, progress)?),
            request => self.change_members(request, progress),
        }
    }

    fn stat(&self, tag: &Tag) -> Option<Value> {
        serde_json::to_value(self.report(tag)).ok()
    }

    fn metrics(&self) -> Vec<Metric> {
        let all = self.all_stats();
        let each = |mut metric: Metric, of: &dyn Fn(&CacheStats) -> u64| {
            all.iter().for_each(|cache| metric.add([("cache", &cache.name)], of(cache)));
            metric
        };
        let each_ssd = |mut metric: Metric, of: &dyn Fn(&SsdStats) -> u64| {
            for (cache, ssd) in all.iter().flat_map(|cache| cache.ssds.iter().map(move |ssd| (cache, ssd))) {
                metric.add([("cache", &cache.name), ("ssd", &ssd.id.to_string())], of(ssd));
            }
            metric
        };
        let (gauge, counter) = (Metric::gauge, Metric::counter);
        vec![
            each(gauge("cache_dirty_bytes", "Bytes newer than on the disks"), &|it| it.bytes.dirty),
            each(gauge("cache_clean_bytes", "Bytes on SSDs that the disks have too"), &|it| it.bytes.clean),
            each(gauge("cache_single_bytes", "Dirty bytes with one copy instead of two"), &|it| it.bytes.single),
            each(gauge("cache_lost_bytes", "Dirty bytes of which no copy can be read"), &|it| it.bytes.lost),
            each(counter("cache_read_hits_total", "Blocks read from buffers and SSDs"), &|it| {
                it.hits.read_buffer + it.hits.read_ssd
            }),
            each(counter("cache_read_misses_total", "Blocks read from disks"), &|it| it.misses),
            each(counter("cache_destaged_blocks_total", "Dirty blocks written to disks"), &|it| it.destage.pages),
            each_ssd(counter("cache_ssd_written_bytes_total", "Bytes written to an SSD since it joined"), &|ssd| {
                ssd.written_bytes
            }),
            each_ssd(
                counter(
                    "cache_ssd_errors_total",
                    "Requests of an SSD that failed and blocks that did not match their sums",
                ),
                &|ssd| ssd.errors + ssd.mismatches,
            ),
        ]
    }

    fn members(&self) -> Vec<PoolMember> {
        let known = self.member_uuids();
        let all = self.pool.members().unwrap_or_default();
        all.into_iter().filter(|member| known.contains(&member.uuid)).collect()
    }

    fn disk_names(&self) -> Vec<String> {
        self.exports()
    }

    fn disk_size(&self, name: &str) -> Option<u64> {
        self.with_export(name).map(|(_, size)| size)
    }

    fn open_disk(&self, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        Some(self.disk(name).map(|disk| disk as Arc<dyn Disk>))
    }

    fn end(&self) -> Result<(), Failure> {
        self.end_all();
        Ok(())
    }
}

/// The words of a request for a new cache.
struct NewCache {
    name: String,
    disks: Vec<NewCacheDisk>,
    ssds: Vec<MemberAddress>,
    settings: SettingsChange,
    leb_bytes: u64,
    buffer_bytes: u64,
    lose: Option<u64>,
}

impl OpenCaches {
    /// Refuses members that lie on a node of this pool's own disks.
    fn refuse_own_nodes(&self, request: &CacheRequest) -> Result<(), Failure> {
        let Some(running) = self.running.upgrade() else { return Ok(()) };
        let places = request.places();
        let on_own = |path: &&Path| running.iter().try_for_each(|service| service.refuse_own(path));
        places.paths.iter().try_for_each(on_own)
    }

    fn create(&self, new: NewCache) -> Result<CreatedCache, Failure> {
        ferrite_pool::check_name(&new.name)?;
        if let Ok(tag) = self.pool.tag(&new.name) {
            return Err(self.registry.taken(&self.pool, ferrite_pool::Error::Exists(tag.name.clone())));
        }
        let exports: Vec<String> =
            new.disks.iter().map(|disk| disk.export.clone().unwrap_or_else(|| new.name.clone())).collect();
        self.ensure_free(&exports)?;
        ensure_different(new.disks.iter().map(|disk| &disk.at).chain(&new.ssds))?;
        let ssds = new.ssds.iter().filter(|_| new.lose.is_none());
        for member in new.disks.iter().map(|disk| &disk.at).chain(ssds).filter(|member| member.has_path()) {
            ferrite_pool::ensure_no_member(&member.path)?;
        }
        let ssds = new.ssds.iter().map(|ssd| self.new_ssd(ssd)).collect::<Result<Vec<_>, _>>()?;
        // Behind the opening, which refuses what is no disk: looking at a FIFO would wait for its writer.
        let addresses = new.ssds.iter().map(|ssd| self.opener.survival(&ssd.address));
        let survives = weakest(SurvivalReport::of(&self.pool), addresses);
        let (settings, notes) = settings_of(&new, &survives.power_loss)?;
        let disks = exports.into_iter().zip(&new.disks).map(|(export, disk)| self.new_disk(export, disk));
        let spec = CacheSpec {
            name: new.name.clone(),
            settings,
            leb_bytes: new.leb_bytes,
            buffer_bytes: new.buffer_bytes,
            ssds,
            disks: disks.collect::<Result<_, _>>()?,
            lose: new.lose,
            nonce: machine::random() as u16,
        };
        spec.create(&self.pool).map_err(|error| match error {
            CacheError::Pool(error) => self.registry.taken(&self.pool, error),
            other => other.into(),
        })?;
        // The files are closed before the cache opens them.
        drop(spec);
        Ok(CreatedCache { report: self.report(&*self.tag(&new.name)?), survives, notes })
    }

    /// Refuses names of disks that are taken.
    pub(crate) fn ensure_free(&self, exports: &[String]) -> Result<(), Failure> {
        let running = self.running.upgrade();
        let taken = running.map_or_else(Vec::new, |running| running.disk_names());
        for (at, export) in exports.iter().enumerate() {
            ferrite_pool::check_name(export)?;
            if exports[..at].contains(export) {
                let why = format!("two disks of the cache would be called {export:?}: write --disk NAME=DISK for each");
                return Err(Failure::refused(why));
            }
            if taken.contains(export) || self.pool.tag(export).is_ok() {
                let why = format!("the pool has something called {export:?}: choose another name for the disk");
                return Err(Failure::new(FailureKind::Exists, why));
            }
        }
        Ok(())
    }

    fn open_member(&self, member: &MemberAddress) -> Result<Arc<dyn Disk>, Failure> {
        self.opener.open(&member.address).map_err(Failure::refused)
    }

    pub(crate) fn new_ssd(&self, ssd: &MemberAddress) -> Result<NewSsd, Failure> {
        let uuid = machine::random_uuid().map_err(Failure::failed)?;
        Ok(NewSsd { address: ssd.address.clone(), disk: self.open_member(ssd)?, uuid })
    }

    pub(crate) fn new_disk(&self, export: String, disk: &NewCacheDisk) -> Result<NewDisk, Failure> {
        let uuid = machine::random_uuid().map_err(Failure::failed)?;
        let (address, stamp) = (disk.at.address.clone(), disk.stamp);
        Ok(NewDisk { export, address, disk: self.open_member(&disk.at)?, uuid, stamp })
    }
}

/// Returns the settings of a new cache whose dirty data `survives` a power failure or not, with a note if a default was
/// chosen that the user may not expect.
fn settings_of(new: &NewCache, survives: &SurvivalAnswer) -> Result<(CacheSettings, Vec<String>), Failure> {
    let ssds = new.ssds.len();
    let is_kept = survives.state == SurvivalState::Yes;
    let default = if ssds >= 2 && is_kept { CacheMode::WriteBack } else { CacheMode::WriteThrough };
    let lost = format!("a power failure may lose what the disk does not have yet: {}", survives.why);
    let note = match (new.settings.mode, default) {
        (None, CacheMode::WriteThrough) => {
            let why = if ssds < 2 { "it has one SSD" } else { &lost };
            Some(format!("write-through, because {why}; --mode write-back chooses otherwise"))
        }
        (Some(CacheMode::WriteBack), _) if !is_kept => Some(lost),
        _ => None,
    };
    let change = SettingsChange { mode: Some(new.settings.mode.unwrap_or(default)), ..new.settings };
    Ok((change.apply(CacheSettings::default(), ssds)?, note.into_iter().collect()))
}

/// Refuses two members with one address: both copies of a page would lie on one SSD.
fn ensure_different<'a>(members: impl Iterator<Item = &'a MemberAddress>) -> Result<(), Failure> {
    let mut known: Vec<&MemberAddress> = Vec::new();
    for member in members {
        let is_same = |other: &&MemberAddress| {
            other.address == member.address || (member.has_path() && other.path == member.path)
        };
        if known.iter().any(is_same) {
            return Err(Failure::refused(format!(
                "{} is named twice: each SSD and each disk is one device",
                member.address
            )));
        }
        known.push(member);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
