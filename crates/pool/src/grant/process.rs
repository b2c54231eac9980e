//! Which process a grant belongs to, across lives of the owner.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::{Caller, PidFd};
use crate::{Error, Result};

/// What tells a process from every other, in this boot and any other (G5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// The pid namespace in which it has that number (its inode), 0 if unknown.
    pub namespace: u32,
    /// When it started, in ticks after boot; 0 if unknown.
    pub start_ticks: u64,
    /// The boot of the machine.
    pub boot_id: [u8; 16],
}

/// A process that has a grant.
#[derive(Clone, Debug)]
pub struct Process {
    identity: Identity,
    watch: ProcessState,
}

#[derive(Clone, Debug)]
enum ProcessState {
    /// It can be asked for.
    By(PidFd),
    /// It is of an earlier boot, or its number is free or somebody else's.
    Ended,
    /// It cannot be judged from here: it counts as living.
    Unknown,
}

impl Process {
    /// The process that calls, in the boot `boot_id`.
    pub fn of(caller: &Caller, boot_id: [u8; 16]) -> Self {
        let start_ticks = start_ticks(caller.pid).unwrap_or(0);
        // Read while it lived, so it is its own start and not that of a later process of the same number.
        let start_ticks = if caller.process.is_alive() { start_ticks } else { 0 };
        let identity = Identity { pid: caller.pid, namespace: namespace(), start_ticks, boot_id };
        Self { identity, watch: ProcessState::By(caller.process.clone()) }
    }

    /// The process that an earlier owner knew as `identity`, looked for in the boot `boot_id`.
    pub fn recall(identity: Identity, boot_id: [u8; 16]) -> Self {
        Self { identity, watch: find(identity, boot_id) }
    }

    /// What tells it from every other.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether it has not ended, as far as can be told.
    pub fn is_alive(&self) -> bool {
        match &self.watch {
            ProcessState::By(process) => process.is_alive(),
            ProcessState::Ended => false,
            ProcessState::Unknown => true,
        }
    }

    /// Those of its open files of which the kernel says that they lie at `link`, opened anew to read and write; none where it
    /// has ended, is of another pid namespace, or does not let us look.
    pub fn files_at(&self, link: &Path) -> Vec<File> {
        let ProcessState::By(process) = &self.watch else { return Vec::new() };
        let Ok(listed) = fs::read_dir(format!("/proc/{}/fd", self.identity.pid)) else { return Vec::new() };
        let is_there = |path: &Path| fs::read_link(path).is_ok_and(|leads| leads == link);
        // What is there a moment later may be a device that one would wait for.
        let open = |path| File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).ok();
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_there(path));
        let files = paths.filter_map(open).collect();
        // While it lives its number is nobody else's: it is the one that was looked at (G5).
        if process.is_alive() { files } else { Vec::new() }
    }
}

fn find(identity: Identity, boot_id: [u8; 16]) -> ProcessState {
    if identity.boot_id != boot_id {
        return ProcessState::Ended;
    }
    if identity.namespace == 0 || identity.namespace != namespace() {
        return ProcessState::Unknown;
    }
    let process = match PidFd::open(identity.pid) {
        Ok(process) => process,
        Err(e) if identity.pid != 0 && is_no_process(&e) => return ProcessState::Ended,
        Err(_) => return ProcessState::Unknown,
    };
    match start_ticks(identity.pid) {
        // Asked after the descriptor was had: if that process still lives, the answer was about it.
        Some(started) if identity.start_ticks != 0 && started != identity.start_ticks && process.is_alive() => {
            ProcessState::Ended
        }
        _ => ProcessState::By(process),
    }
}

/// Whether nobody has the number that was asked for, or a thread has that is none's first: EINVAL in older kernels.
fn is_no_process(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT | libc::EINVAL))
}

/// When process `pid` started: the 22nd word of its stat, counted behind its name, which may hold anything.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn namespace() -> u32 {
    fs::metadata("/proc/self/ns/pid").ok().and_then(|found| u32::try_from(found.ino()).ok()).unwrap_or(0)
}

/// The file behind `fd`, opened again for reading only.
pub(super) fn reopen_to_read(fd: &OwnedFd) -> Result<OwnedFd> {
    let reopened = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let failed = |e: io::Error| Error::Medium(ferrite_memory::Error::io("reopening the pool for reading", e));
    reopened.map(OwnedFd::from).map_err(failed)
}
