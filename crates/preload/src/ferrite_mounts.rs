//! Mounted Ferrite file systems, found by the kernel's data about an open descriptor and its mounts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferrite_fs::format::attr::Time;
use ferrite_fs::share::layout::mount_source::read_mount_source;
use ferrite_fs_client::{FsSession, flush_mount};
use ferrite_memory::{MountLine, stamp_ns};
use parking_lot::Mutex;

use crate::{call_tally, own_fds, real, reentrancy, signals};

/// The type of Ferrite's mounts in the kernel's list.
const KIND: &str = "fuse.ferrite";
/// Time during which an unreachable owner is not asked again.
const REST_NS: u64 = 1_000_000_000;

/// The longest time for an owner to make data durable: more than a disk takes, and not for ever, because signals are
/// blocked during it.
const SILENCE: Duration = Duration::from_secs(60);

/// The longest time for an owner to answer at all; less if this process has nothing of it, because it may be stopped.
const GREETING: Duration = Duration::from_secs(10);
const STRANGERS_GREETING: Duration = Duration::from_millis(500);

/// A mounted file system, and the session with its owner.
pub struct FerriteMount {
    /// The kernel's device number of each file: no other mount has it while one of its files is open.
    device: u64,
    pool: PathBuf,
    name: String,
    session: Mutex<Option<Arc<FsSession>>>,
    /// All sessions that may still exist: leases keep sessions of owners that have ended.
    begun: Mutex<Vec<Weak<FsSession>>>,
    ask_at_ns: AtomicU64,
}

impl FerriteMount {
    fn new(device: u64, pool: PathBuf, name: String) -> Self {
        let (session, begun, ask_at_ns) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Self { device, pool, name, session, begun, ask_at_ns }
    }

    /// Returns a mount without an owner.
    pub fn nowhere() -> Self {
        Self::new(0, "/nowhere".into(), "files".into())
    }

    /// Returns the session, and begins one if necessary: with the server of this very mount only (LD8).
    pub fn session(&self, now_ns: u64) -> Option<Arc<FsSession>> {
        let mut session = self.session.try_lock()?;
        if session.as_ref().is_some_and(|session| session.is_over()) {
            *session = None;
        }
        if session.is_none() && now_ns >= self.ask_at_ns.load(Ordering::Relaxed) {
            let begun = own_fds::making(|| FsSession::connect_quiet(&self.pool, &self.name, Arc::new(time), quietly));
            let begun = begun.inspect_err(|_| call_tally::refused()).ok();
            let is_strange = begun.as_ref().is_some_and(|begun| begun.device() != Some(self.device));
            let ask_at_ns = if is_strange { u64::MAX } else { now_ns + REST_NS };
            self.ask_at_ns.store(ask_at_ns, Ordering::Relaxed);
            *session = begun.filter(|_| !is_strange);
            let mut begun = self.begun.lock();
            begun.retain(|before| before.strong_count() > 0);
            begun.extend(session.as_ref().map(Arc::downgrade));
        }
        session.clone()
    }

    /// Makes all writes to the mount durable, by its server.
    pub fn persist(&self) -> Option<()> {
        own_fds::making(|| flush_mount(&self.pool, &self.name, self.device, GREETING, SILENCE)).ok()
    }

    /// Ends the session, whose leases were released. If this process continues, its owner is asked for another one at
    /// once.
    pub fn end(&self) {
        let session = self.session.lock().take();
        if session.is_some() {
            self.ask_at_ns.store(0, Ordering::Relaxed);
        }
        drop(session);
    }

    /// Ends all access of this process to the pool, while other threads may use it (FG10); `wait` waits for them. The
    /// owner decides about later sessions.
    pub fn withdraw(&self, wait: impl Fn()) {
        // Held to the end: no thread begins a session at the same time, or has begun one with the previous rights.
        let mut session = self.session.lock();
        let begun: Vec<_> = self.begun.lock().drain(..).filter_map(|session| session.upgrade()).collect();
        begun.iter().for_each(|session| session.withdraw(&wait));
        *session = None;
    }

    /// Ends the session if its owner has ended.
    pub fn end_if_over(&self) {
        let over = self.session.try_lock().and_then(|mut session| session.take_if(|session| session.is_over()));
        drop(over);
    }

    /// Forgets the session in a child, which has only a copy of its memory, not its rights.
    pub fn forget_in_child(&self) {
        // The thread that had the lock does not exist any more.
        let session = self.session.try_lock().and_then(|mut session| session.take());
        if let Some(session) = session {
            session.forget_in_child();
            std::mem::forget(session);
        }
    }
}

/// Runs the part of a read or a write that needs locks, memory or the owner (LD5). A signal handler may have no stack
/// for it.
fn quietly(work: &mut dyn FnMut()) {
    if !signals::is_on_own_stack()
        && let Some(_inside) = reentrancy::enter()
    {
        signals::with_fatal_signals(work);
    }
}

fn time() -> Time {
    Time(stamp_ns())
}

/// Returns the mount whose files have the device number `device`, if it is Ferrite's. The caller has a file on it open,
/// so the number is not reused.
pub fn find(device: u64) -> Option<FerriteMount> {
    let listed = real::contents(c"/proc/self/mountinfo")?;
    let mut ours = listed.split(|byte| *byte == b'\n').filter_map(ours);
    let (_, pool, name) = ours.find(|(listed, ..)| *listed == device)?;
    Some(FerriteMount::new(device, pool, name))
}

/// Makes all writes to Ferrite's mounts except those in `known` durable: not of this process, but possibly of an
/// earlier one in the same script.
pub fn persist_others(known: &[Arc<FerriteMount>]) {
    let listed = real::contents(c"/proc/self/mountinfo").unwrap_or_default();
    for (device, pool, name) in listed.split(|byte| *byte == b'\n').filter_map(ours) {
        let is_known = known.iter().any(|mount| mount.device == device);
        if !is_known && is_trusted(&pool) {
            let _ = own_fds::making(|| flush_mount(&pool, &name, device, STRANGERS_GREETING, SILENCE));
        }
    }
}

/// Returns true if the server of `pool` runs as this user or root: another user's might delay the program.
fn is_trusted(pool: &Path) -> bool {
    let owner = |path| fs::metadata(path).map(|it| it.uid());
    owner(pool).is_ok_and(|theirs| theirs == 0 || owner(Path::new("/proc/self")).is_ok_and(|ours| ours == theirs))
}

/// Returns the device number, pool and name of the mount on a line of the kernel's list, if it is Ferrite's.
fn ours(line: &[u8]) -> Option<(u64, PathBuf, String)> {
    let line = MountLine::parse(line).filter(|line| line.kind == KIND)?;
    let (pool, name) = read_mount_source(line.source.to_str()?)?;
    Some((line.device(), pool, name))
}

#[cfg(test)]
mod tests;
