//! Mounted file systems of ours, found by what the kernel says of an open descriptor and of its mounts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferrite_fs::format::attr::Time;
use ferrite_fs::share::layout::mount_source::read_mount_source;
use ferrite_fs_client::{FsSession, flush_mount};
use ferrite_memory::{stamp_ns, unescaped};
use parking_lot::Mutex;

use crate::{call_tally, own_fds, real, reentrancy, signals};

/// The kind of our mounts, as the kernel lists them.
const KIND: &[u8] = b"fuse.ferrite";
/// How long an owner that was not reached is not asked again.
const REST_NS: u64 = 1_000_000_000;

/// How long an owner may make things durable: more than a disk takes, and not for ever, for signals are held off meanwhile.
const SILENCE: Duration = Duration::from_secs(60);

/// How long it may take to answer at all, and where this process has nothing of it, as it may be stopped.
const GREETING: Duration = Duration::from_secs(10);
const STRANGERS_GREETING: Duration = Duration::from_millis(500);

/// A file system that is mounted, and our way to it.
pub struct FerriteMount {
    /// As the kernel tells it of each file: no other mount has it while one of its files is open.
    device: u64,
    pool: PathBuf,
    name: String,
    session: Mutex<Option<Arc<FsSession>>>,
    /// All that were begun and may be there still: leases keep those of owners that have ended.
    begun: Mutex<Vec<Weak<FsSession>>>,
    ask_at_ns: AtomicU64,
}

impl FerriteMount {
    fn new(device: u64, pool: PathBuf, name: String) -> Self {
        let (session, begun, ask_at_ns) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Self { device, pool, name, session, begun, ask_at_ns }
    }

    /// One that nobody serves.
    pub fn nowhere() -> Self {
        Self::new(0, "/nowhere".into(), "files".into())
    }

    /// The session, which is begun if there is none: with who serves this very mount, and nobody else (LD8).
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

    /// Has all that was written to it made durable, by who serves it.
    pub fn persist(&self) -> Option<()> {
        own_fds::making(|| flush_mount(&self.pool, &self.name, self.device, GREETING, SILENCE)).ok()
    }

    /// Ends the session, whose leases were given back. If this process goes on after all its owner is asked for another one at
    /// once.
    pub fn end(&self) {
        let session = self.session.lock().take();
        if session.is_some() {
            self.ask_at_ns.store(0, Ordering::Relaxed);
        }
        drop(session);
    }

    /// Takes all that this process has of the pool away from it, whoever is using it (FG10); `wait` is for those. Whoever asks
    /// for a session after that is let in by the owner, or not.
    pub fn withdraw(&self, wait: impl Fn()) {
        // Held to the end: nobody begins one meanwhile, or has begun one with the rights of before.
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

    /// In a child, which has only a copy of the session's memory, not of its right.
    pub fn forget_in_child(&self) {
        // Who had the lock is not there any more.
        let session = self.session.try_lock().and_then(|mut session| session.take());
        if let Some(session) = session {
            session.forget_in_child();
            std::mem::forget(session);
        }
    }
}

/// What a read or a write needs locks, memory or the owner for (LD5). A handler of a signal may have no stack for that.
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

/// The mount whose files have the device number `device`, if it is ours. Whoever asks has a file on it open, so the number
/// is no other's.
pub fn find(device: u64) -> Option<FerriteMount> {
    let listed = real::contents(c"/proc/self/mountinfo")?;
    let mut ours = listed.split(|byte| *byte == b'\n').filter_map(ours);
    let (_, pool, name) = ours.find(|(listed, ..)| *listed == device)?;
    Some(FerriteMount::new(device, pool, name))
}

/// Has all that was written to our mounts but those in `known` made durable: not by this process, but maybe by one that came
/// before in the same script.
pub fn persist_others(known: &[Arc<FerriteMount>]) {
    let listed = real::contents(c"/proc/self/mountinfo").unwrap_or_default();
    for (device, pool, name) in listed.split(|byte| *byte == b'\n').filter_map(ours) {
        let is_known = known.iter().any(|mount| mount.device == device);
        if !is_known && is_trusted(&pool) {
            let _ = own_fds::making(|| flush_mount(&pool, &name, device, STRANGERS_GREETING, SILENCE));
        }
    }
}

/// Whether who serves `pool` is this user or root: anybody else might keep us waiting.
fn is_trusted(pool: &Path) -> bool {
    let owner = |path| fs::metadata(path).map(|it| it.uid());
    owner(pool).is_ok_and(|theirs| theirs == 0 || owner(Path::new("/proc/self")).is_ok_and(|ours| ours == theirs))
}

/// Device number, pool and name of the mount on a line of the kernel's list, if it is ours.
fn ours(line: &[u8]) -> Option<(u64, PathBuf, String)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (major, minor) = std::str::from_utf8(words.nth(2)?).ok()?.split_once(':')?;
    let device = libc::makedev(major.parse().ok()?, minor.parse().ok()?);
    words.find(|word| *word == b"-")?;
    if words.next()? != KIND {
        return None;
    }
    let (pool, name) = read_mount_source(&String::from_utf8(unescaped(words.next()?)).ok()?)?;
    Some((device, pool, name))
}

#[cfg(test)]
mod tests;
