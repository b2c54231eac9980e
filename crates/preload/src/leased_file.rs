//! A file on a mount, for all descriptions of it in this process: its lease, and when to ask for one.
//!
//! A lease costs a round trip to the pool's owner, so it is asked for when as much has been spent on calls through the
//! mount. One that the owner took back is asked for again at once, for who came by the mount may be another program like
//! this one, which has its lease in a moment; were all to wait, each by the mount, none would keep one. One that is taken
//! back again and again is asked for after a while, and after a longer one each time. While one thread asks the others wait:
//! a call of theirs through the mount would take the lease back at once.
//!
//! Unsafe because the lease is read under a pin without counting its users, and for the question what time it is.
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

/// Calls through the mount that cost as much as asking for a lease.
const CALLS: u64 = 8;
/// Bytes that cost as much as a call more.
const CALL_BYTES: u64 = 32 << 10;
/// How often in a row a lease is asked for again at once: several processes that begin to write come by the mount so often.
const AGAIN: u32 = 64;
/// How often it is asked for at a time: a call through the mount that another thread had begun refuses it to all.
const TRIES: u32 = 3;
/// One that was had for so long was not taken back in a row.
const ROW_NS: u64 = 1_000_000_000;

/// What a call needs of a lease; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseNeed {
    Read,
    /// Overwriting below the end.
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

/// A piece of the file.
pub struct ClaimedPlace {
    pub at: u64,
    pub end: u64,
}

struct HeldLease {
    lease: FileLease,
    /// What it is still good for, as [`LeaseNeed`].
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
    /// Writing would have to take these away: the kernel's to do.
    has_set_ids: bool,
    lease: AtomicPtr<HeldLease>,
    calls: AtomicU64,
    /// Somebody asks for a lease, or gives it back.
    asking: AtomicBool,
    rest: RetryBackoff,
    /// From asking for the right to append.
    append_rest: RetryBackoff,
    /// Leases that were taken back in a row.
    taken: AtomicU32,
    /// This process has a shared mapping of it: it is the kernel's.
    is_mapped: AtomicBool,
    looks: OnceLock<StatTemplate>,
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
            looks: OnceLock::new(),
        }
    }

    /// The lease, if there is one that is enough, for as long as the caller is pinned.
    #[inline(always)]
    fn lease<'pin>(&'pin self, need: LeaseNeed, _pin: &'pin Pin) -> Option<&'pin FileLease> {
        // SAFETY: who takes a lease away waits for the caller's pin.
        let held = unsafe { self.lease.load(Ordering::Acquire).as_ref() }?;
        if held.is_good_for(need) { Some(&held.lease) } else { None }
    }

    /// `work` by the lease, if there is one that is enough.
    fn by<T>(&self, need: LeaseNeed, work: impl FnOnce(&FileLease) -> Option<T>) -> Option<T> {
        work(self.lease(need, &pin())?)
    }

    /// What has the lease, if there is one that is enough, for who waits.
    fn held(&self, need: LeaseNeed) -> Option<Arc<HeldLease>> {
        let _pin = pin();
        let held = self.lease.load(Ordering::Acquire);
        // SAFETY: as for [`LeasedFile::lease`].
        unsafe { held.as_ref() }.filter(|held| held.is_good_for(need))?;
        // SAFETY: it came from Arc::into_raw, and the file has a share of it while we are pinned.
        unsafe { Arc::increment_strong_count(held) };
        // SAFETY: the share that was just added.
        Some(unsafe { Arc::from_raw(held) })
    }

    #[inline]
    pub fn is_leased(&self) -> bool {
        !self.lease.load(Ordering::Relaxed).is_null()
    }

    // Always, down to the copy: thread-locals of a library that is loaded into programs are found by a call, which a function
    // makes once.
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

    /// What fstat(2) tells, once the kernel has told what the mount's files look like.
    pub fn stat(&self) -> Option<libc::stat> {
        let looks = self.looks.get()?;
        let attr = self.by(LeaseNeed::Read, FileLease::attr)?;
        looks.of(&attr)
    }

    /// `found` is what the kernel told.
    pub fn store_stat_template(&self, found: &libc::stat) {
        // A handler of a signal would wait for what it interrupted in the middle (LD5).
        if self.looks.get().is_none()
            && let Some(_inside) = reentrancy::enter()
        {
            let _ = self.looks.set(StatTemplate(*found));
        }
    }

    pub fn resize(&self, len: u64) -> Option<()> {
        let _inside = reentrancy::enter()?;
        if len > size_limit::file_bytes() {
            return None;
        }
        // Who waits for the owner is not pinned: others would wait for that.
        let held = self.held(LeaseNeed::Write)?;
        signals::with_fatal_signals(|| held.lease.resize(len))
    }

    /// Everything written is durable, by whomever: while the right to write is ours the kernel has nothing dirty.
    #[inline]
    pub fn persist_data(&self) -> Option<()> {
        self.by(LeaseNeed::Write, FileLease::sync_data)
    }

    /// And so is when that was.
    pub fn persist(&self) -> Option<()> {
        self.by(LeaseNeed::Write, FileLease::sync)
    }

    /// A call of `len` bytes needs `need` and could not be done directly: whether to try that once more, because there
    /// is a lease now. `look` has the kernel ask how large the file is.
    #[cold]
    pub fn ask(&self, need: LeaseNeed, len: usize, look: &dyn Fn()) -> bool {
        let spent = 1 + len as u64 / CALL_BYTES;
        let Some(_inside) = reentrancy::enter() else { return false };
        if self.calls.fetch_add(spent, Ordering::Relaxed) + spent < CALLS || !self.may_have(need) {
            return false;
        }
        // A handler of a signal may have no stack to talk to an owner on.
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

    #[cfg(test)]
    pub fn has_stat_template(&self) -> bool {
        self.looks.get().is_some()
    }

    /// How much was spent on calls that were tried directly in vain.
    #[cfg(test)]
    pub fn spent(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Another thread asks for a lease, which a call through the mount would take back at once: waits for that, but not for
    /// long. Whether there is one then that is enough.
    fn gets_lease_soon(&self, need: LeaseNeed) -> bool {
        wait_briefly(|| !self.asking.load(Ordering::Acquire));
        self.by(need, |lease| lease.allows(need.access()).then_some(())).is_some()
    }

    fn may_have(&self, need: LeaseNeed) -> bool {
        let is_kernels = self.is_mapped.load(Ordering::Relaxed) || need > LeaseNeed::Read && self.has_set_ids;
        !is_kernels && !reentrancy::is_off()
    }

    /// Only for who set `asking`, which is not pinned.
    #[inline(never)]
    fn renew(&self, need: LeaseNeed, look: &dyn Fn(), now_ns: u64) -> bool {
        // SAFETY: only who asks takes leases away.
        let held = unsafe { self.lease.load(Ordering::Acquire).as_ref() };
        if let Some(held) = held.filter(|held| held.is_good_for(need)) {
            if held.lease.allows(need.access()) {
                // Another thread has just got it, or this call is one for the mount.
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

    /// The lease was refused what it should have been good for: others came by the mount, or are about to, and then it
    /// is good for reading; or it stands no more. Whether to ask for another one at once.
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

    /// Gives the lease back, or has it given back when nobody is using it. Only for who set `asking`, or has the file alone.
    fn drop_lease(&self) {
        let held = self.lease.swap(ptr::null_mut(), Ordering::AcqRel);
        // A signal handler cannot wait for what it interrupted: then it is never given back.
        if !held.is_null() && pin().seat().is_some() {
            // SAFETY: it came from Arc::into_raw, and nobody finds it any more.
            let held = unsafe { Arc::from_raw(held) };
            signals::with_fatal_signals(|| deferred_drop::drop_later(held));
        }
    }

    /// Gives the lease back, from any thread that is inside.
    pub fn release_lease(&self) {
        while self.asking.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
        self.drop_lease();
        self.asking.store(false, Ordering::Release);
    }

    /// This process has a shared mapping of it from now on.
    pub fn map(&self) {
        self.is_mapped.store(true, Ordering::Relaxed);
        self.release_lease();
    }
}

impl Drop for LeasedFile {
    fn drop(&mut self) {
        // Whoever still worked on it when it was closed may be outside.
        let _inside = reentrancy::enter();
        self.drop_lease();
    }
}

/// Waits until `is_done`, but not for long: some 10 ms. Whether it is.
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

/// Nanoseconds since some moment that was before the process.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
