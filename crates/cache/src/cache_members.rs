//! The SSDs and disks of an open cache.

use std::ops::Index;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ferrite_disk::Disk;
use ferrite_memory::{Error, planted};
use parking_lot::{Mutex, RwLock};

use crate::cache_config::{DiskConfig, SsdConfig};
use crate::cache_layout::{BLOCK, CacheLayout, DISKS_MAX};

/// The state of an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SsdState {
    /// It is read and written.
    Online,
    /// It is read; its pages move away.
    Leaving,
    /// It did not answer, or answered with too many errors. It is not used.
    Failed,
    /// It was not found, or cannot be reached any more. It is looked for, and comes back with its content.
    Missing,
}

/// The number of errors within [`ERRORS_NS`] that makes an SSD fail.
const ERRORS_MAX: u32 = 8;
/// The time after which half of the errors are forgotten.
const ERRORS_NS: u64 = 600_000_000_000;

/// Returns true if `error` says that the member cannot be reached until it is opened again: the device was removed, or the
/// connection was lost. Only LEBs that were flushed before count (CA4), so the member may come back with its content.
pub(crate) fn is_gone(error: &Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    match error {
        Error::Poisoned(_) => true,
        Error::Io { source, .. } => {
            let removed = [rustix::io::Errno::NODEV, rustix::io::Errno::NXIO].map(|errno| errno.raw_os_error());
            matches!(source.kind(), ConnectionAborted | ConnectionReset | BrokenPipe)
                || source.raw_os_error().is_some_and(|errno| removed.contains(&errno))
        }
        _ => false,
    }
}

#[derive(Default)]
struct SsdErrors {
    recent: u32,
    halved_ns: u64,
}

/// The health of an SSD.
struct SsdHealth {
    state: SsdState,
    why: String,
    since_ns: u64,
}

/// An SSD of an open cache.
pub(crate) struct CacheSsd {
    pub id: u8,
    pub uuid: [u8; 16],
    pub lebs: u32,
    pub address: Mutex<String>,
    disk: RwLock<Option<Arc<dyn Disk>>>,
    health: Mutex<SsdHealth>,
    errors: Mutex<SsdErrors>,
    /// Counts the openings, so that queues to an earlier opening are not used.
    pub opening: AtomicU32,
    is_readable: AtomicBool,
    is_writable: AtomicBool,
    /// True while the user removes it.
    pub leaves: AtomicBool,
    pub in_flight: AtomicU32,
    /// Requests that are waited for no more and that the SSD has not ended (CA11, CA18).
    pub abandoned: AtomicU32,
    pub inserts: AtomicU64,
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub trimmed_bytes: AtomicU64,
    /// Requests that failed.
    pub error_count: AtomicU64,
    /// Pages that did not match their sums, each once.
    pub mismatches: AtomicU64,
}

impl CacheSsd {
    /// Returns the SSD of `config`, which is missing until [`Self::attach`].
    pub fn new(config: &SsdConfig) -> Self {
        Self {
            id: config.id,
            uuid: config.uuid,
            lebs: config.lebs,
            address: Mutex::new(config.address.clone()),
            disk: RwLock::new(None),
            health: Mutex::new(SsdHealth { state: SsdState::Missing, why: "it was not found".into(), since_ns: 0 }),
            errors: Mutex::default(),
            opening: AtomicU32::new(0),
            is_readable: AtomicBool::new(false),
            is_writable: AtomicBool::new(false),
            leaves: AtomicBool::new(config.leaves),
            in_flight: AtomicU32::new(0),
            abandoned: AtomicU32::new(0),
            inserts: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(config.written_bytes),
            trimmed_bytes: AtomicU64::new(0),
            error_count: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
        }
    }

    /// Uses `disk` as the SSD from now on.
    pub fn attach(&self, disk: Arc<dyn Disk>) {
        let state = if self.leaves.load(Ordering::SeqCst) { SsdState::Leaving } else { SsdState::Online };
        *self.disk.write() = Some(disk);
        *self.errors.lock() = SsdErrors::default();
        self.opening.fetch_add(1, Ordering::SeqCst);
        self.set_state(state, String::new(), 0);
    }

    /// Returns the disk under the SSD, if it is open.
    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.read().clone()
    }

    /// Closes the disk under the SSD.
    pub fn detach(&self) {
        *self.disk.write() = None;
    }

    /// Returns the state and its reason.
    pub fn state(&self) -> (SsdState, String) {
        let health = self.health.lock();
        (health.state, health.why.clone())
    }

    /// Returns when the state began.
    pub fn since_ns(&self) -> u64 {
        self.health.lock().since_ns
    }

    /// Changes the state. Returns true if it was another one.
    pub fn set_state(&self, state: SsdState, why: String, now_ns: u64) -> bool {
        let mut health = self.health.lock();
        let is_new = health.state != state;
        *health = SsdHealth { state, why, since_ns: now_ns };
        self.is_readable.store(matches!(state, SsdState::Online | SsdState::Leaving), Ordering::Release);
        self.is_writable.store(state == SsdState::Online, Ordering::Release);
        is_new
    }

    /// Begins or cancels the removal of the SSD.
    pub fn set_leaves(&self, leaves: bool) {
        self.leaves.store(leaves, Ordering::SeqCst);
        let (from, to) = match leaves {
            true => (SsdState::Online, SsdState::Leaving),
            false => (SsdState::Leaving, SsdState::Online),
        };
        let mut health = self.health.lock();
        if health.state == from {
            health.state = to;
            self.is_writable.store(to == SsdState::Online, Ordering::Release);
        }
    }

    /// Returns true if pages may be read from the SSD.
    pub fn is_readable(&self) -> bool {
        self.is_readable.load(Ordering::Acquire)
    }

    /// Returns true if LEBs may be written to the SSD.
    pub fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Acquire)
    }

    /// Notes an error or a mismatch. Returns true if the SSD has failed by it: eight in ten minutes.
    pub fn note_error(&self, now_ns: u64) -> bool {
        let mut errors = self.errors.lock();
        while now_ns.saturating_sub(errors.halved_ns) >= ERRORS_NS && errors.recent > 0 {
            errors.recent /= 2;
            errors.halved_ns += ERRORS_NS;
        }
        if errors.recent == 0 {
            errors.halved_ns = now_ns;
        }
        errors.recent += 1;
        errors.recent >= ERRORS_MAX
    }
}

/// A disk of an open cache.
pub(crate) struct CacheDisk {
    pub config: DiskConfig,
    disk: RwLock<Option<Arc<dyn Disk>>>,
    /// True while the disk is looked for.
    is_missing: AtomicBool,
    is_removed: AtomicBool,
    pub opening: AtomicU32,
    /// The queues of clients.
    pub queues: AtomicU32,
    why: Mutex<String>,
    /// Writes of the disk that have completed.
    pub writes: AtomicU64,
    /// As many of them as a flush has made durable.
    pub flushed: AtomicU64,
    /// As many of them as a flush that failed may have lost: no later flush makes them durable.
    lost_writes: AtomicU64,
    /// Flushes that failed.
    pub flush_failures: AtomicU64,
    /// When a client's request last went to the disk.
    pub used_ns: AtomicU64,
    pub reads: AtomicU64,
    pub errors: AtomicU64,
    /// Requests that the disk works on.
    in_flight: AtomicU64,
    /// When the disk last ended a request or began to have one.
    answered_ns: AtomicU64,
}

impl CacheDisk {
    /// Returns the disk of `config`, which is missing until [`Self::attach`].
    pub fn new(config: DiskConfig) -> Self {
        Self {
            config,
            disk: RwLock::new(None),
            is_missing: AtomicBool::new(true),
            is_removed: AtomicBool::new(false),
            opening: AtomicU32::new(0),
            queues: AtomicU32::new(0),
            why: Mutex::new("it was not found".into()),
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            lost_writes: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            used_ns: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
        }
    }

    /// Notes that the disk has one more request.
    pub fn note_begun(&self, now_ns: u64) {
        if self.in_flight.fetch_add(1, Ordering::Relaxed) == 0 {
            self.answered_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Notes that a request of the disk has ended.
    pub fn note_ended(&self, now_ns: u64) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.answered_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Returns how long the disk has ended no request although requests wait for it; 0 without requests.
    pub fn silent_ns(&self, now_ns: u64) -> u64 {
        let has_none = self.in_flight.load(Ordering::Relaxed) == 0;
        if has_none { 0 } else { now_ns.saturating_sub(self.answered_ns.load(Ordering::Relaxed)) }
    }

    /// Uses `disk` from now on.
    pub fn attach(&self, disk: Arc<dyn Disk>) {
        self.is_missing.store(false, Ordering::SeqCst);
        *self.disk.write() = Some(disk);
        self.opening.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes why the disk is not served, although it was found.
    pub fn refuse(&self, why: String) {
        self.is_missing.store(false, Ordering::SeqCst);
        *self.disk.write() = None;
        *self.why.lock() = why;
    }

    /// Notes why the disk was not found. It is looked for again.
    pub fn miss(&self, why: String) {
        self.refuse(why);
        self.is_missing.store(true, Ordering::SeqCst);
    }

    /// Notes the end of a flush of the writes up to `upto`. The host may have forgotten what a flush that failed lost.
    pub fn end_flush(&self, upto: u64, is_good: bool) {
        if is_good {
            self.flushed.fetch_max(upto, Ordering::SeqCst);
        } else {
            self.errors.fetch_add(1, Ordering::Relaxed);
            self.flush_failures.fetch_add(1, Ordering::SeqCst);
            self.lost_writes.fetch_max(self.writes.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Returns true if a flush has made the write `number` durable.
    pub fn is_durable(&self, number: u64) -> bool {
        let is_lost =
            number <= self.lost_writes.load(Ordering::SeqCst) && !planted!("cache: a failed flush is forgotten");
        number <= self.flushed.load(Ordering::SeqCst) && !is_lost
    }

    /// Returns true while the disk is looked for.
    pub fn is_missing(&self) -> bool {
        self.is_missing.load(Ordering::SeqCst)
    }

    /// Returns true if the disk is open.
    pub fn is_open(&self) -> bool {
        self.disk.read().is_some()
    }

    /// Returns the reason why the disk is not open.
    pub fn why(&self) -> String {
        self.why.lock().clone()
    }

    /// Returns the disk under the cache, if it is open.
    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.read().clone()
    }

    /// Returns where block `block` lies on the disk, in bytes.
    pub fn block_at(&self, block: u64) -> u64 {
        self.data_at() + block * BLOCK
    }

    /// Returns where the data begin on the disk, in bytes.
    pub fn data_at(&self) -> u64 {
        self.config.data_at()
    }
}

/// All disks of a cache, by number. Disks join; the number of one that left is not used again until the cache is opened
/// again.
pub(crate) struct DiskSet(Box<[OnceLock<CacheDisk>]>);

impl Default for DiskSet {
    fn default() -> Self {
        Self((0..DISKS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl DiskSet {
    /// Adds `disk`, whose number is free.
    pub fn add(&self, disk: CacheDisk) {
        let number = usize::from(disk.config.number);
        assert!(self.0[number].set(disk).is_ok(), "the number of a disk is used once");
    }

    /// Returns a number that no disk has or had.
    pub fn free_number(&self) -> Option<u8> {
        self.0.iter().position(|disk| disk.get().is_none()).map(|number| number as u8)
    }

    /// Removes the disk `number`, which has no page in the cache.
    pub fn remove(&self, number: u8) {
        if let Some(disk) = self.get(number) {
            disk.refuse("it was removed from the cache".into());
            disk.is_removed.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the disk `number`.
    pub fn get(&self, number: u8) -> Option<&CacheDisk> {
        self.0.get(usize::from(number))?.get().filter(|disk| !disk.is_removed.load(Ordering::SeqCst))
    }

    /// Returns all disks by number.
    pub fn iter(&self) -> impl Iterator<Item = &CacheDisk> {
        self.0.iter().filter_map(OnceLock::get).filter(|disk| !disk.is_removed.load(Ordering::SeqCst))
    }
}

impl Index<usize> for DiskSet {
    type Output = CacheDisk;

    /// Returns the disk `number`, also one that was removed.
    fn index(&self, number: usize) -> &CacheDisk {
        self.0[number].get().expect("a block's disk joined before")
    }
}

/// All SSDs of a cache. SSDs join; one that left stays as a number without a member.
#[derive(Default)]
pub(crate) struct SsdSet(RwLock<Vec<Option<Arc<CacheSsd>>>>);

impl SsdSet {
    /// Adds `ssd`.
    pub fn add(&self, ssd: Arc<CacheSsd>) {
        let mut all = self.0.write();
        let index = usize::from(ssd.id);
        if all.len() <= index {
            all.resize(index + 1, None);
        }
        all[index] = Some(ssd);
    }

    /// Removes the SSD `id`.
    pub fn remove(&self, id: u8) {
        if let Some(place) = self.0.write().get_mut(usize::from(id)) {
            *place = None;
        }
    }

    /// Returns the SSD `id`.
    pub fn get(&self, id: u8) -> Option<Arc<CacheSsd>> {
        self.0.read().get(usize::from(id)).cloned().flatten()
    }

    /// Returns all SSDs by number.
    pub fn all(&self) -> Vec<Arc<CacheSsd>> {
        self.0.read().iter().flatten().cloned().collect()
    }

    /// Returns the number of pages of the SSDs that are read.
    pub fn pages(&self, layout: &CacheLayout) -> u64 {
        let all = self.0.read();
        let readable = all.iter().flatten().filter(|ssd| ssd.is_readable());
        readable.map(|ssd| u64::from(ssd.lebs - 1) * u64::from(layout.pages())).sum()
    }
}
