//! A file on a mount, for all its descriptions in this process: its lease, and the rule when to request one.
//!
//! A lease costs a round trip to the pool's owner, so it is requested when calls through the mount have cost as much. A
//! revoked lease is requested again at once: the other program may be one like this, which gets its lease in a moment;
//! if all waited, each using the mount, none would keep one. A lease that is revoked again and again is requested after
//! a while, and after a longer one each time. While one thread requests, the others wait: a call of theirs through the
//! mount would revoke the lease at once.
//!
//! Unsafe because the lease is read under a pin without counting its users, and because the clock is read.
#![allow(unsafe_code)]

mod backoff;
mod stat_template;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use ferrite_fs::format::attr::Ino;
use ferrite_fs::share::layout::request::LeaseAccess;
use ferrite_fs_client::FileLease;
use ferrite_memory::{Pin, pin};

use crate::ferrite_mounts::FerriteMount;
use crate::{deferred_drop, reentrancy, signals, size_limit};
use backoff::RetryBackoff;
use stat_template::StatTemplate;

/// Calls through the mount that cost as much as a lease.
const CALLS: u64 = 8;
/// Bytes that cost as much as one more call.
const CALL_BYTES: u64 = 32 << 10;
/// How often in a row a lease is requested again at once: several processes that begin to write use the mount that
/// often.
const AGAIN: u32 = 64;
/// Attempts of one request: a call through the mount that another thread had begun refuses the lease.
const TRIES: u32 = 3;
/// A lease that lasted this long ends a row of revocations.
const ROW_NS: u64 = 1_000_000_000;

/// The lease that a call needs; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseNeed {
    Read,
    /// Overwrites below the end.
    Write,
    Append,
}

impl LeaseNeed {
    fn access(self) -> LeaseAccess {
        match self {
            Self::Read => LeaseAccess::Read,
            Self::Write => LeaseAccess::Write,
            Self::Append => LeaseAccess::Append,
        }
    }
}

/// A range of the file that a call has claimed.
pub struct ClaimedPlace {
    pub at: u64,
    pub end: u64,
}

struct HeldLease {
    lease: FileLease,
    /// The most that the lease still allows, as [`LeaseNeed`].
    good_for: AtomicU8,
    since_ns: u64,
}

impl HeldLease {
    #[inline]
    fn is_good_for(&self, need: LeaseNeed) -> bool {
        self.good_for.load(Ordering::Relaxed) >= need as u8
    }
}

pub struct LeasedFile {
    pub mount: Arc<FerriteMount>,
    pub ino: u64,
    /// A write would have to remove set-id bits: the kernel's to do.
    has_set_ids: bool,
    lease: AtomicPtr<HeldLease>,
    pub calls: AtomicU64,
    /// True while a thread requests a lease, or releases it.
    asking: AtomicBool,
    rest: RetryBackoff,
    /// The backoff of requests for appends.
    append_rest: RetryBackoff,
    /// Leases that were revoked in a row.
    taken: AtomicU32,
    /// True if this process has a shared mapping of the file: then the kernel does all calls.
    is_mapped: AtomicBool,
    pub stat_template: OnceLock<StatTemplate>,
}

impl LeasedFile {
    pub fn new(mount: Arc<FerriteMount>, ino: u64, has_set_ids: bool) -> Self {
        Self {
            mount,
            ino,
            has_set_ids,
            lease: AtomicPtr::default(),
            calls: AtomicU64::new(0),
            asking: AtomicBool::new(false),
            rest: RetryBackoff::new(),
            append_rest: RetryBackoff::new(),
            taken: AtomicU32::new(0),
            is_mapped: AtomicBool::new(false),
            stat_template: OnceLock::new(),
        }
    }

    /// Returns the lease, if there is a sufficient one, for as long as the caller is pinned.
    #[inline(always)]
    fn lease<'pin>(&'pin self, need: LeaseNeed, _pin: &'pin Pin) -> Option<&'pin FileLease> {
        // SAFETY: a thread that removes a lease waits for the caller's pin.
        let held = unsafe { self.lease.load(Ordering::Acquire).as_ref() }?;
        if held.is_good_for(need) { Some(&held.lease) } else { None }
    }

    /// Calls `work` with the lease, if there is a sufficient one.
    fn by<T>(&self, need: LeaseNeed, work: impl FnOnce(&FileLease) -> Option<T>) -> Option<T> {
        work(self.lease(need, &pin())?)
    }

    /// Returns a share of the lease, if there is a sufficient one, for a caller that waits.
    fn held(&self, need: LeaseNeed) -> Option<Arc<HeldLease>> {
        let _pin = pin();
        let held = self.lease.load(Ordering::Acquire);
        // SAFETY: the caller is pinned, as for [`LeasedFile::lease`].
        unsafe { held.as_ref() }.filter(|held| held.is_good_for(need))?;
        // SAFETY: it came from Arc::into_raw, and the file has a share of it while this thread is pinned.
        unsafe { Arc::increment_strong_count(held) };
        // SAFETY: the share that was just added.
        Some(unsafe { Arc::from_raw(held) })
    }

    #[inline]
    pub fn is_leased(&self) -> bool {
        !self.lease.load(Ordering::Relaxed).is_null()
    }

    // Inlined down to the copy: a preloaded library finds its thread-locals by a call, which a function makes once.
    #[inline(always)]
    pub fn read(&self, pin: &Pin, at: u64, into: &mut [u8]) -> Option<usize> {
        self.lease(LeaseNeed::Read, pin)?.read(at, into)
    }

    #[inline(always)]
    pub fn write(&self, pin: &Pin, at: u64, from: &[u8]) -> Option<usize> {
        if at.checked_add(from.len() as u64)? > size_limit::file_bytes() {
            return None;
        }
        self.lease(LeaseNeed::Write, pin)?.write(at, from)
    }

    #[inline(never)]
    pub fn append(&self, from: &[u8]) -> Option<(u64, usize)> {
        self.by(LeaseNeed::Append, |lease| {
            let limit = size_limit::file_bytes();
            let fits = limit == size_limit::NONE || lease.size()?.checked_add(from.len() as u64)? <= limit;
            if fits { lease.append(from) } else { None }
        })
    }

    pub fn size(&self) -> Option<u64> {
        self.by(LeaseNeed::Read, FileLease::size)
    }

    /// Returns the result of fstat(2), after the kernel has returned one for a file of the mount.
    pub fn stat(&self) -> Option<libc::stat> {
        let stat_template = self.stat_template.get()?;
        let attr = self.by(LeaseNeed::Read, FileLease::attr)?;
        stat_template.of(&attr)
    }

    /// Stores `found`, a result of the kernel.
    pub fn store_stat_template(&self, found: &libc::stat) {
        // A signal handler would wait for the code that it interrupted (LD5).
        if self.stat_template.get().is_none()
            && let Some(_inside) = reentrancy::enter()
        {
            let _ = self.stat_template.set(StatTemplate(*found));
        }
    }

    pub fn resize(&self, len: u64) -> Option<()> {
        let _inside = reentrancy::enter()?;
        if len > size_limit::file_bytes() {
            return None;
        }
        // A thread that waits for the owner is not pinned: others would wait for it.
        let held = self.held(LeaseNeed::Write)?;
        signals::with_fatal_signals(|| held.lease.resize(len))
    }

    /// Makes all writes durable, by any process: with a lease to write, the kernel has no dirty page of the file.
    #[inline]
    pub fn persist_data(&self) -> Option<()> {
        self.by(LeaseNeed::Write, FileLease::sync_data)
    }

    /// Makes all writes and their times durable.
    pub fn persist(&self) -> Option<()> {
        self.by(LeaseNeed::Write, FileLease::sync)
    }

    /// A call of `len` bytes needed `need` and could not be done directly. Returns true if there is a lease now, so
    /// that the call is retried directly. `look` makes the kernel query the size of the file.
    #[cold]
    pub fn ask(&self, need: LeaseNeed, len: usize, look: &dyn Fn()) -> bool {
        let spent = 1 + len as u64 / CALL_BYTES;
        let Some(_inside) = reentrancy::enter() else { return false };
        if self.calls.fetch_add(spent, Ordering::Relaxed) + spent < CALLS || !self.may_have(need) {
            return false;
        }
        // A signal handler may have no stack for a request to an owner.
        if pin().seat().is_none() || signals::is_on_own_stack() {
            return false;
        }
        if self.asking.swap(true, Ordering::Acquire) {
            return self.gets_lease_soon(need);
        }
        let has_one = self.renew(need, look, now_ns());
        self.asking.store(false, Ordering::Release);
        has_one
    }

    /// Waits briefly for another thread's request, which a call through the mount would spoil. Returns true if there is
    /// a sufficient lease then.
    fn gets_lease_soon(&self, need: LeaseNeed) -> bool {
        wait_briefly(|| !self.asking.load(Ordering::Acquire));
        self.by(need, |lease| lease.allows(need.access()).then_some(())).is_some()
    }

    fn may_have(&self, need: LeaseNeed) -> bool {
        let is_kernels = self.is_mapped.load(Ordering::Relaxed) || need > LeaseNeed::Read && self.has_set_ids;
        !is_kernels && !reentrancy::is_off()
    }

    /// Only for the thread that set `asking`, which is not pinned.
    #[inline(never)]
    fn renew(&self, need: LeaseNeed, look: &dyn Fn(), now_ns: u64) -> bool {
        // SAFETY: only the requesting thread removes leases.
        let held = unsafe { self.lease.load(Ordering::Acquire).as_ref() };
        if let Some(held) = held.filter(|held| held.is_good_for(need)) {
            if held.lease.allows(need.access()) {
                // Another thread has just got it, or this call has to use the mount.
                return true;
            }
            if !self.missed(held, now_ns) {
                return false;
            }
            self.drop_lease();
            return self.request_lease(need, look, now_ns);
        }
        if !self.rest.is_over(now_ns) || need == LeaseNeed::Append && !self.append_rest.is_over(now_ns) {
            return false;
        }
        self.drop_lease();
        self.request_lease(need, look, now_ns)
    }

    /// Handles a refusal by the lease: other processes use the mount, or are about to, and then the lease allows reads
    /// only; or it was revoked. Returns true to request another one at once.
    fn missed(&self, held: &HeldLease, now_ns: u64) -> bool {
        let (stands, writes) = (held.lease.size().is_some(), held.is_good_for(LeaseNeed::Write));
        let before = if now_ns - held.since_ns > ROW_NS { 0 } else { self.taken.load(Ordering::Relaxed) };
        self.taken.store(before.saturating_add(1), Ordering::Relaxed);
        if stands && writes && before < AGAIN {
            return true;
        }
        if writes || !stands {
            self.rest.begin(now_ns);
        }
        if stands {
            held.good_for.store(LeaseNeed::Read as u8, Ordering::Relaxed);
        } else {
            self.drop_lease();
        }
        false
    }

    fn request_lease(&self, need_now: LeaseNeed, look: &dyn Fn(), now_ns: u64) -> bool {
        let wanted = match need_now {
            LeaseNeed::Read => &[(LeaseNeed::Read, LeaseAccess::Read)][..],
            LeaseNeed::Write | LeaseNeed::Append => {
                &[(LeaseNeed::Append, LeaseAccess::Append), (LeaseNeed::Write, LeaseAccess::Write)]
            }
        };
        let is_to_ask = |need: LeaseNeed| need < LeaseNeed::Append || self.append_rest.is_over(now_ns);
        let Some(session) = self.mount.session(now_ns) else { return false };
        for (need, access) in wanted.iter().filter(|(need, _)| is_to_ask(*need)) {
            let ahead_bytes = match need_now {
                LeaseNeed::Append if *access == LeaseAccess::Append => FileLease::FIRST_AHEAD_BYTES,
                _ => 0,
            };
            let ask = || session.lease_with(Ino(self.ino), *access, ahead_bytes, look);
            let lease = signals::with_fatal_signals(|| (0..TRIES).find_map(|_| ask().ok()));
            if let Some(lease) = lease {
                let held = Arc::new(HeldLease { lease, good_for: AtomicU8::new(*need as u8), since_ns: now_ns });
                self.lease.store(Arc::into_raw(held).cast_mut(), Ordering::Release);
                return true;
            }
            if *need == LeaseNeed::Append {
                self.append_rest.begin(now_ns);
            }
        }
        self.rest.begin(now_ns);
        false
    }

    /// Releases the lease, now or after its last user. Only for the thread that set `asking`, or the last owner of the
    /// file.
    fn drop_lease(&self) {
        let held = self.lease.swap(ptr::null_mut(), Ordering::AcqRel);
        // A signal handler cannot wait for the code that it interrupted: then the lease is never released.
        if !held.is_null() && pin().seat().is_some() {
            // SAFETY: it came from Arc::into_raw, and no other thread finds it any more.
            let held = unsafe { Arc::from_raw(held) };
            signals::with_fatal_signals(|| deferred_drop::drop_later(held));
        }
    }

    /// Releases the lease, from any thread that is inside this library.
    pub fn release_lease(&self) {
        while self.asking.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
        self.drop_lease();
        self.asking.store(false, Ordering::Release);
    }

    /// Records that this process has a shared mapping of the file.
    pub fn map(&self) {
        self.is_mapped.store(true, Ordering::Relaxed);
        self.release_lease();
    }
}

impl Drop for LeasedFile {
    fn drop(&mut self) {
        // A thread that still used the file when it was closed may be outside this library.
        let _inside = reentrancy::enter();
        self.drop_lease();
    }
}

/// Waits until `is_done`, at most some 10 ms. Returns its last value.
pub fn wait_briefly(is_done: impl Fn() -> bool) -> bool {
    const YIELDS: u32 = 100;
    const NAPS: u32 = 200;
    const NAP: Duration = Duration::from_micros(50);
    let then = |wait| {
        if wait < YIELDS {
            thread::yield_now()
        } else {
            thread::sleep(NAP)
        }
        is_done()
    };
    is_done() || (0..YIELDS + NAPS).any(then)
}

/// Returns nanoseconds since a moment before the process.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
