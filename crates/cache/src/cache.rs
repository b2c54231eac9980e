//! An open cache.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_disk::{Clock, Disk, ReadyEvent};
use ferrite_memory::{Claim, Scheme, Survival, Survives, planted};
use ferrite_pool::tie::TieVerdict;
use ferrite_pool::{Freeze, Pool, StorePass};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bad_copies::PageAccess;
use crate::cache_core::{CacheCore, CoreParts};
use crate::cache_members::CacheSsd;
use crate::cache_memory::CacheMemory;
use crate::cache_settings::CacheSettings;
use crate::cache_spec::{advance_disk, advance_ssd};
use crate::cache_worker::CacheWorker;
use crate::cached_disk::CachedDisk;
use crate::fingerprint::{chosen_blocks, difference};
use crate::open_members::{MemberAccess, OpenedMembers, mismatch};
use crate::page_word::BlockKey;
use crate::recover_cache::{CacheRecovery, recover};
use crate::{CacheError, Result};

/// Opens the members of a cache by their addresses.
pub trait MemberOpener: Send + Sync {
    /// Opens the SSD or disk at `address`.
    ///
    /// # Errors
    /// The reason, for people.
    fn open(&self, address: &str) -> std::result::Result<Arc<dyn Disk>, String>;

    /// Returns which failures the SSD or disk at `address` survives with what was flushed to it.
    fn survival(&self, address: &str) -> Survival {
        let not_known = || Claim::new(Survives::NotKnown, format!("nothing is known of {address}"));
        let process_crash = Claim::new(Survives::Yes, "it lies outside of the process");
        Survival { process_crash, kernel_crash: not_known(), power_loss: not_known() }
    }
}

/// How a cache is opened.
pub struct OpenOptions {
    /// Opens the members.
    pub opener: Arc<dyn MemberOpener>,
    /// The clock of timeouts and rates.
    pub clock: Arc<dyn Clock>,
    /// How slots are stored.
    pub scheme: Scheme,
    /// Returns random numbers.
    pub random: fn() -> u16,
}

/// An open cache. Its background work is done by [`Cache::step`], which a thread at the edge calls.
pub struct Cache {
    pub(crate) core: Arc<CacheCore>,
    pub(crate) worker: Mutex<CacheWorker>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: OpenOptions,
    pub(crate) disks: Mutex<BTreeMap<u8, Arc<CachedDisk>>>,
    recovery: CacheRecovery,
    /// Held to change the members (CM4).
    pub(crate) membership: Mutex<()>,
    /// When missing members were looked for.
    pub(crate) looked_ns: AtomicU64,
    member_thread: Mutex<Option<JoinHandle<Result<()>>>>,
    stopped: AtomicBool,
    /// Wakes [`Cache::rest`].
    stop_event: ReadyEvent,
}

impl Cache {
    /// Opens the cache called `name` in `pool`: recovers it, and stamps the members that are there.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if a member is of a later generation than the pool, or the cache is incomplete;
    /// [`CacheError::Damaged`]; and the errors of the pool.
    pub fn open(pool: &Arc<Pool>, name: &str, options: OpenOptions) -> Result<Arc<Self>> {
        let _pass = StorePass::of(pool);
        let memory = CacheMemory::new(pool.hold(name)?, options.scheme)?;
        let config = memory.load_config()?;
        if !config.config.is_complete {
            return Err(CacheError::Refused(format!(
                "the creation of the cache {name:?} did not end: `ferrite cache remove` removes it"
            )));
        }
        memory.adopt_config(&config.config)?;
        let access = MemberAccess::new(pool, &memory, &options);
        let config = access.release_pending(&memory, config)?;
        let members = OpenedMembers::open(&access, &config.config)?;
        let ghost_pages = u64::from(memory.tables()) * u64::from(memory.layout().pages());
        let (ssds, disks) = (members.ssds, members.disks);
        let clock = Arc::clone(&options.clock);
        let parts = CoreParts { memory, ssds, disks, config, clock, ghost_pages };
        let core = Arc::new(CacheCore::new(parts)?);
        let (start, recovery) = recover(&core)?;
        for known in core.disks.iter() {
            let tables = start.valid.values().map(|valid| valid.table);
            let Some(disk) = known.disk() else { continue };
            let blocks = chosen_blocks(&core, tables, known.config.number);
            if let Some(why) = difference(&blocks, &known.config, &*disk) {
                known.refuse(why);
            }
        }
        let worker = CacheWorker::new(Arc::clone(&core), start)?;
        let numbers = core.disks.iter().map(|disk| disk.config.number);
        let disks = numbers.map(|number| (number, Arc::new(CachedDisk::new(Arc::clone(&core), number)))).collect();
        let cache = Arc::new(Self {
            disks: Mutex::new(disks),
            worker: Mutex::new(worker),
            pool: Arc::clone(pool),
            options,
            recovery,
            membership: Mutex::default(),
            looked_ns: AtomicU64::new(core.clock.now_ns()),
            member_thread: Mutex::default(),
            stopped: AtomicBool::new(false),
            stop_event: ReadyEvent::new()?,
            core,
        });
        let standing: Arc<dyn Freeze> = cache.clone();
        cache.core.memory.lease().register_freezer(Arc::downgrade(&standing) as Weak<dyn Freeze>);
        Ok(cache)
    }

    /// Returns what recovery found at the opening.
    pub fn recovery(&self) -> CacheRecovery {
        self.recovery
    }

    /// Returns the disk that users open as `export`.
    ///
    /// # Errors
    /// [`CacheError::NotFound`], and [`CacheError::Refused`] with the reason if the disk under the cache is not open.
    pub fn disk(&self, export: &str) -> Result<Arc<CachedDisk>> {
        let disks = self.disks.lock();
        let known = self.core.disks.iter().find(|disk| disk.config.export == export);
        let known = known.and_then(|known| Some((known, disks.get(&known.config.number)?)));
        let (known, disk) = known.ok_or_else(|| self.no_disk(export))?;
        match known.is_open() {
            true => Ok(Arc::clone(disk)),
            false => Err(CacheError::Refused(format!(
                "the disk {export:?} of the cache {:?} is not served: {}",
                self.core.name,
                known.why()
            ))),
        }
    }

    pub(crate) fn no_disk(&self, export: &str) -> CacheError {
        CacheError::NotFound(format!("the cache {:?} has no disk called {export:?}", self.core.name))
    }

    pub(crate) fn access(&self) -> MemberAccess<'_> {
        MemberAccess::new(&self.pool, &self.core.memory, &self.options)
    }

    /// Returns the names by which users open the disks.
    pub fn exports(&self) -> Vec<String> {
        self.core.disks.iter().map(|disk| disk.config.export.clone()).collect()
    }

    /// Does what can be done now in the background. Returns the time after which the next step is due.
    ///
    /// # Errors
    /// The errors of the pool, which then refuses further changes.
    pub fn step(self: &Arc<Self>) -> Result<Duration> {
        self.start_member_work()?;
        Ok(self.worker.lock().step(self.core.clock.now_ns())?)
    }

    /// Begins what the members need, if nothing of it is under way. A member may hang, so that work has a thread of its
    /// own, unless the clock is virtual. Returns the error with which the last such work ended.
    fn start_member_work(self: &Arc<Self>) -> Result<()> {
        let mut thread = self.member_thread.lock();
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        if let Some(Err(error)) = thread.take().and_then(|ended| ended.join().ok()) {
            return Err(error);
        }
        if !self.has_member_work() {
            return Ok(());
        }
        if !self.core.clock.passes() || planted!("cache: the worker waits for members") {
            drop(thread);
            return self.work_on_members();
        }
        let cache = Arc::clone(self);
        let started = Builder::new().name("cache-members".into()).spawn(move || cache.work_on_members());
        *thread = started.ok();
        Ok(())
    }

    /// Returns true if members have to move to a new generation, are looked for, or can leave.
    fn has_member_work(&self) -> bool {
        let may_leave =
            |ssd: &Arc<CacheSsd>| ssd.leaves.load(Ordering::SeqCst) && self.worker.lock().left_on(ssd.id) == 0;
        !self.core.member_pass.is_given() || self.core.ssds.all().iter().any(may_leave) || self.is_look_due()
    }

    fn work_on_members(&self) -> Result<()> {
        let Some(_membership) = self.membership.try_lock() else { return Ok(()) };
        self.advance_if_needed()?;
        self.look_for_members()?;
        self.end_removals()
    }

    /// Waits for the work on members that is under way, which ends within the time limits of the members.
    pub(crate) fn end_member_work(&self) {
        self.member_thread.lock().take().map(JoinHandle::join);
    }

    /// Moves the ties of the members if the pool was copied. The caller holds [`Cache::membership`].
    pub(crate) fn advance_if_needed(&self) -> Result<()> {
        if self.core.member_pass.is_given() {
            return Ok(());
        }
        self.core.member_pass.renew(|| self.advance_members())?;
        self.core.wake_waiters();
        Ok(())
    }

    /// Waits at most `limit` for the next step to be due. Returns false once [`Cache::stop`] was called.
    pub fn rest(&self, limit: Duration) -> bool {
        let descriptor = self.worker.lock().descriptor().try_clone_to_owned();
        if let Ok(descriptor) = descriptor {
            use std::os::fd::AsFd;
            let limit = Timespec::try_from(limit).ok();
            let mut fds = [
                PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.stop_descriptor(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, limit.as_ref());
        }
        !self.stopped.load(Ordering::SeqCst)
    }

    fn stop_descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.stop_event.as_fd()
    }

    /// Ends [`Cache::rest`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.stop_event.signal();
    }

    /// Returns the settings.
    pub fn settings(&self) -> CacheSettings {
        self.core.settings()
    }

    /// Changes the settings. Durable on return, and in force for requests that begin later.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn set(&self, settings: CacheSettings) -> Result<()> {
        self.core.change_config(|config| config.settings = settings)?;
        self.core.set_settings(settings);
        self.core.worker_event.signal();
        Ok(())
    }

    /// Returns the number of dirty bytes.
    pub fn dirty_bytes(&self) -> u64 {
        self.core.dirty.load(Ordering::Relaxed).max(0) as u64 * crate::BLOCK
    }

    /// Returns the number of dirty bytes that no SSD gives now, because all with a right copy failed or are missing.
    pub fn unreadable_bytes(&self) -> u64 {
        let (away, lost) = self.core.unreadable_pages();
        (away + lost) * crate::BLOCK
    }

    /// Describes the dirty blocks that no SSD gives now, for people.
    pub(crate) fn show_unreadable(&self) -> String {
        let blocks = self.core.unreadable_blocks(None);
        let named = |wanted: PageAccess| -> Vec<BlockKey> {
            blocks.iter().filter(|block| block.access == wanted).map(|block| block.key).collect()
        };
        let (lost, away) = (named(PageAccess::Lost), named(PageAccess::Away));
        let parts = [
            (lost, "are lost, because no SSD has a right copy of them: overwrite them, or bring a failed SSD back"),
            (away, "are on SSDs that are missing: bring these back (`ferrite cache stat` shows them)"),
        ];
        let parts = parts.iter().filter(|(keys, _)| !keys.is_empty()).map(|(keys, what)| {
            let bytes = keys.len() as u64 * crate::BLOCK;
            format!("{bytes} dirty bytes {what}; they are {}", self.core.show_blocks(keys))
        });
        parts.chain(["everything else is on the disks".to_string()]).collect::<Vec<_>>().join("; ")
    }

    /// Destages all dirty pages at full speed, or returns to the rate of the settings.
    pub fn clean_all(&self, is_wanted: bool) {
        self.core.clean_all.store(is_wanted, Ordering::SeqCst);
        self.core.worker_event.signal();
    }

    /// Returns true if no background work is under way.
    pub fn is_idle(&self) -> bool {
        self.worker.lock().is_idle()
    }

    /// Moves the ties of all open members to a new generation, because the pool was copied (CA12).
    fn advance_members(&self) -> Result<()> {
        let config = self.core.config.lock().config.clone();
        let (pool, cache) = (&self.pool, self.core.memory.lease().tag().generation);
        let leb_bytes = self.core.memory.layout().leb_bytes;
        for known in &config.ssds {
            let Some(ssd) = self.core.ssds.get(known.id).filter(|ssd| ssd.is_readable()) else { continue };
            let Some(disk) = ssd.disk() else { continue };
            match advance_ssd(pool, cache, known, leb_bytes, &disk, (self.options.random)()) {
                Ok(verdict) if verdict.is_good() => {}
                Ok(verdict) => self.core.fail_ssd(&ssd, &mismatch(verdict)),
                Err(error) => self.core.fail_ssd(&ssd, &error.to_string()),
            }
        }
        for disk in self.core.disks.iter() {
            let Some(opened) = disk.disk() else { continue };
            match advance_disk(pool, cache, &disk.config, &opened, (self.options.random)()) {
                Ok(verdict) if verdict.is_none_or(TieVerdict::is_good) => {}
                Ok(verdict) => disk.refuse(verdict.map_or_else(String::new, mismatch)),
                Err(error) => disk.miss(error.to_string()),
            }
        }
        let _ = planted!("cache: members have new generations");
        Ok(())
    }
}

impl Freeze for Cache {
    fn freeze(&self) {
        self.core.freeze();
    }

    fn thaw(&self) {
        self.core.thaw();
    }
}
