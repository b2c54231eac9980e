//! The caches of an open pool. A cache opens when it is first needed; from then on a thread does its background work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_disk::Clock;
use ferrite_memory::Scheme;
use ferrite_owner::{ProgressCall, RunningServices, ServiceRegistry, machine, space_bytes};
use ferrite_pool::{Failure, FailureKind, Pool, Progress, Tag};
use parking_lot::Mutex;

use crate::cache::{Cache, MemberOpener, OpenOptions};
use crate::cache_config::CacheConfig;
use crate::cache_reports::{CacheReport, CacheState, CacheStats};
use crate::cache_walk::read_config;
use crate::limited_opener::LimitedOpener;
use crate::settings_change::SettingsChange;
use crate::{CACHE_KIND, CacheCheckOptions, CacheCheckReport, CachedDisk};

/// The time between two looks at what background work has done.
pub(crate) const WORK_PAUSE: Duration = Duration::from_millis(20);

/// The time in which a member opens and answers outside of its queues: the default of `--ssd-timeout`.
const MEMBER_LIMIT: Duration = Duration::from_secs(10);

/// An open cache, and the thread that does its background work.
pub(crate) struct WorkedCache {
    pub(crate) cache: Arc<Cache>,
    /// The error with which the background work ended.
    failure: Arc<Mutex<Option<String>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Calls that wait until the cache is clean.
    cleaners: AtomicUsize,
}

impl WorkedCache {
    fn start(cache: Arc<Cache>) -> Result<Arc<Self>, Failure> {
        let failure = Arc::new(Mutex::new(None));
        let (worked, ended) = (Arc::clone(&cache), Arc::clone(&failure));
        let work = move || {
            loop {
                match worked.step() {
                    Ok(pause) if worked.rest(pause) => {}
                    Ok(_) => return,
                    Err(error) => return *ended.lock() = Some(error.to_string()),
                }
            }
        };
        let thread = Builder::new().name("cache".into()).spawn(work);
        let thread = Mutex::new(Some(thread.map_err(|error| Failure::failed(format!("starting a thread: {error}")))?));
        Ok(Arc::new(Self { cache, failure, thread, cleaners: AtomicUsize::new(0) }))
    }

    /// Ends the thread. What is dirty stays so.
    fn stop(&self) {
        self.cache.stop();
        self.thread.lock().take().map(JoinHandle::join);
        self.cache.end_member_work();
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Refuses to wait for background work that has ended.
    pub(crate) fn ensure_works(&self) -> Result<(), Failure> {
        self.failure().map_or(Ok(()), |why| Err(Failure::failed(format!("the work of the cache has ended: {why}"))))
    }

    /// Writes all dirty data to the disks.
    pub(crate) fn clean(&self, progress: ProgressCall<'_>) -> Result<(), Failure> {
        self.cleaners.fetch_add(1, Ordering::SeqCst);
        self.cache.clean_all(true);
        let cleaned = self.await_clean(progress);
        if self.cleaners.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cache.clean_all(false);
        }
        cleaned
    }

    fn await_clean(&self, progress: ProgressCall<'_>) -> Result<(), Failure> {
        let mut most = 0;
        loop {
            let dirty = self.cache.dirty_bytes();
            if dirty == 0 {
                return Ok(());
            }
            self.ensure_works()?;
            if self.cache.ssds_online() == 0 && !self.cache.refused_disks().is_empty() {
                return Err(Failure::refused(self.cache.refused_disks().join("; ")));
            }
            if dirty == self.cache.unreadable_bytes() {
                return Err(Failure::refused(self.cache.show_unreadable()));
            }
            most = dirty.max(most);
            let what = "writing dirty data to the disks".into();
            if !progress(Progress { done: most - dirty, total: most, what }) {
                let why = format!("stopped: {dirty} bytes are still dirty, and nothing is lost; run it again");
                return Err(Failure::new(FailureKind::Cancelled, why));
            }
            std::thread::sleep(WORK_PAUSE);
        }
    }
}

impl Drop for WorkedCache {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The caches of an open pool.
pub struct OpenCaches {
    pub(crate) pool: Arc<Pool>,
    pub(crate) registry: Arc<ServiceRegistry>,
    pub(crate) running: Weak<RunningServices>,
    pub(crate) opener: Arc<dyn MemberOpener>,
    clock: Arc<dyn Clock>,
    open: Mutex<BTreeMap<String, Arc<WorkedCache>>>,
    /// Held to open or close a cache.
    opening: Mutex<()>,
}

impl OpenCaches {
    pub(crate) fn new(
        pool: Arc<Pool>,
        registry: Arc<ServiceRegistry>,
        running: Weak<RunningServices>,
        opener: Arc<dyn MemberOpener>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let opener: Arc<dyn MemberOpener> = match clock.passes() {
            true => Arc::new(LimitedOpener::new(opener, MEMBER_LIMIT)),
            false => opener,
        };
        Self { pool, registry, running, opener, clock, open: Mutex::default(), opening: Mutex::default() }
    }

    pub(crate) fn tags(&self) -> Vec<Arc<Tag>> {
        self.pool.tags().into_iter().filter(|tag| tag.kind == CACHE_KIND).collect()
    }

    /// Returns the tag of the cache called `name`.
    pub(crate) fn tag(&self, name: &str) -> Result<Arc<Tag>, Failure> {
        let tag = self.pool.tag(name).map_err(|_| {
            Failure::not_found(format!(
                "there is no cache called {name:?}: see `ferrite cache list`, or `ferrite cache create` it"
            ))
        })?;
        if tag.kind != CACHE_KIND {
            let why = format!("{name:?} is no cache, but a tag of kind {}", tag.kind.name());
            return Err(Failure::new(FailureKind::WrongKind, why));
        }
        Ok(tag)
    }

    fn known(&self, name: &str) -> Option<Arc<WorkedCache>> {
        self.open.lock().get(name).cloned()
    }

    /// Returns the cache called `name`, and opens it if it is closed.
    ///
    /// # Errors
    /// The kind [`FailureKind::NotFound`], and the failures of [`Cache::open`].
    pub(crate) fn open(&self, name: &str) -> Result<Arc<WorkedCache>, Failure> {
        // A cache that is open is used while another one waits for its members.
        if let Some(known) = self.known(name) {
            return Ok(known);
        }
        let _one = self.opening.lock();
        if let Some(known) = self.known(name) {
            return Ok(known);
        }
        self.tag(name)?;
        let worked = WorkedCache::start(Cache::open(&self.pool, name, self.options())?)?;
        self.open.lock().insert(name.into(), Arc::clone(&worked));
        Ok(worked)
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            opener: Arc::clone(&self.opener),
            clock: Arc::clone(&self.clock),
            scheme: Scheme::Nt,
            random: || machine::random() as u16,
        }
    }

    /// Does `change` to the cache called `name` while it is closed. Refused while a client uses one of its disks.
    pub(crate) fn while_closed<T>(
        &self,
        name: &str,
        change: impl FnOnce(&OpenOptions) -> crate::Result<T>,
    ) -> Result<T, Failure> {
        let tag = self.tag(name)?;
        // Not under the lock: the service of disks may hold its own lock and wait for this one.
        for disk in self.config(&tag).map_or_else(Vec::new, |config| config.disks) {
            self.close_disk_elsewhere(&disk.export)?;
        }
        let _one = self.opening.lock();
        let known = self.open.lock().remove(name);
        known.into_iter().for_each(|known| known.stop());
        Ok(change(&self.options())?)
    }

    /// Lets every service close the disk `export`, which it may have opened.
    pub(crate) fn close_disk_elsewhere(&self, export: &str) -> Result<(), Failure> {
        let Some(running) = self.running.upgrade() else { return Ok(()) };
        running.iter().try_for_each(|service| service.close_disk(export))
    }

    /// Returns the configuration of the cache in `tag`: of the open cache, or what the pool has.
    fn config(&self, tag: &Tag) -> Option<CacheConfig> {
        read_config(&self.pool, tag)
    }

    /// Returns the name of the cache that has the disk `export`, and the bytes of the disk.
    pub(crate) fn with_export(&self, export: &str) -> Option<(String, u64)> {
        let of = |tag: &Arc<Tag>| {
            let disk = self.config(tag)?.disks.into_iter().find(|disk| disk.export == export)?;
            Some((tag.name.clone(), disk.size))
        };
        self.tags().iter().find_map(of)
    }

    /// Returns the names by which users open the disks of all caches. Opens none.
    pub(crate) fn exports(&self) -> Vec<String> {
        let of = |tag: Arc<Tag>| match self.known(&tag.name) {
            Some(open) => open.cache.exports(),
            None => self.config(&tag).into_iter().flat_map(|config| config.disks).map(|disk| disk.export).collect(),
        };
        self.tags().into_iter().flat_map(of).collect()
    }

    /// Opens the disk that users call `export`.
    pub(crate) fn disk(&self, export: &str) -> Result<Arc<CachedDisk>, Failure> {
        match self.with_export(export) {
            Some((name, _)) => Ok(self.open(&name)?.cache.disk(export)?),
            None => {
                let tag = self.tag(export)?;
                let disks = self.config(&tag).map_or_else(Vec::new, |config| config.disks);
                let names: Vec<String> = disks.into_iter().map(|disk| disk.export).collect();
                Err(Failure::refused(format!("{export:?} is a cache; its disks are called {}", names.join(", "))))
            }
        }
    }

    /// Returns the identities of all members of all caches.
    pub(crate) fn member_uuids(&self) -> Vec<[u8; 16]> {
        let configs = self.tags().into_iter().filter_map(|tag| self.config(&tag));
        let of = |config: CacheConfig| {
            let ssds = config.ssds.into_iter().map(|ssd| ssd.uuid);
            ssds.chain(config.disks.into_iter().map(|disk| disk.uuid)).collect::<Vec<_>>()
        };
        configs.flat_map(of).collect()
    }

    /// Describes all caches. Opens none.
    ///
    /// # Errors
    /// None at present; the failures of single caches are in their reports.
    pub fn list(&self) -> Vec<CacheReport> {
        self.tags().iter().map(|tag| self.report(tag)).collect()
    }

    /// Opens all caches and describes them. A cache that cannot be opened is described with the reason.
    pub fn open_all(&self) -> Vec<CacheReport> {
        let opened = |tag: &Arc<Tag>| match self.open(&tag.name) {
            Ok(_) => self.report(tag),
            Err(failure) => {
                let report = self.report(tag);
                let state = if report.state == CacheState::Incomplete { report.state } else { CacheState::Failed };
                CacheReport { state, why: Some(failure.message), ..report }
            }
        };
        self.tags().iter().map(opened).collect()
    }

    /// Returns the bytes that only caches have, of all open caches.
    pub fn dirty_bytes(&self) -> u64 {
        self.open.lock().values().map(|open| open.cache.dirty_bytes()).sum()
    }

    /// Describes the cache in `tag`.
    pub(crate) fn report(&self, tag: &Tag) -> CacheReport {
        let (config, open) = (self.config(tag), self.known(&tag.name));
        let failure = open.as_ref().and_then(|open| open.failure());
        let state = match (&config, &open) {
            (None, _) => CacheState::Failed,
            (Some(config), _) if !config.is_complete => CacheState::Incomplete,
            _ if failure.is_some() => CacheState::Failed,
            (_, None) => CacheState::Closed,
            (_, Some(_)) => CacheState::Open,
        };
        let unreadable = "its configuration cannot be read: run `ferrite pool check`";
        let config = config.ok_or_else(|| unreadable.to_string());
        let why = failure.or_else(|| config.as_ref().err().cloned());
        let config = config.unwrap_or_default();
        let cache = open.as_ref().map(|open| &open.cache);
        CacheReport {
            name: tag.name.clone(),
            state,
            why,
            mode: config.settings.mode,
            ssds: config.ssds.len() as u64,
            ssds_online: cache.map(|cache| cache.ssds_online()),
            dirty_bytes: cache.map(|cache| cache.dirty_bytes()),
            disks: config.disks.into_iter().map(|disk| disk.export).collect(),
            refused_disks: cache.map_or_else(Vec::new, |cache| cache.refused_disks()),
            space_bytes: space_bytes(tag),
            recovery: cache.map(|cache| cache.recovery()),
        }
    }

    /// Opens and describes the cache called `name`.
    pub(crate) fn stats(&self, name: &str) -> Result<CacheStats, Failure> {
        let open = self.open(name)?;
        Ok(open.cache.stats(open.failure()))
    }

    /// Returns the description of each open cache.
    pub(crate) fn all_stats(&self) -> Vec<CacheStats> {
        let open: Vec<Arc<WorkedCache>> = self.open.lock().values().cloned().collect();
        open.iter().map(|open| open.cache.stats(open.failure())).collect()
    }

    /// Changes settings of the cache called `name`.
    pub(crate) fn set(&self, name: &str, change: &SettingsChange) -> Result<CacheReport, Failure> {
        let cache = Arc::clone(&self.open(name)?.cache);
        let tag = self.tag(name)?;
        let ssds = self.config(&tag).map_or(0, |config| config.ssds.len());
        cache.set(change.apply(cache.settings(), ssds)?)?;
        Ok(self.report(&tag))
    }

    /// Writes all dirty data of the cache called `name` to its disks.
    pub(crate) fn clean(&self, name: &str, progress: ProgressCall<'_>) -> Result<CacheReport, Failure> {
        let open = self.open(name)?;
        open.clean(progress)?;
        drop(open);
        Ok(self.report(&*self.tag(name)?))
    }

    /// Checks the cache called `name`.
    pub(crate) fn check(
        &self,
        name: &str,
        options: &CacheCheckOptions,
        progress: ProgressCall<'_>,
    ) -> Result<CacheCheckReport, Failure> {
        let open = self.open(name)?;
        let mut note = |done, total| progress(Progress { done, total, what: format!("checking the cache {name:?}") });
        let report = open.cache.check(options, &mut note)?;
        report.ok_or_else(|| Failure::new(FailureKind::Cancelled, "stopped: the rest was not checked"))
    }

    /// Ends the background work of all caches. What is dirty stays so.
    pub(crate) fn end_all(&self) {
        let _one = self.opening.lock();
        let open = std::mem::take(&mut *self.open.lock());
        open.values().for_each(|open| open.stop());
    }
}
