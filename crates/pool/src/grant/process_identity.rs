//! The processes of grants, identified across owners.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::{Caller, PidFd};
use crate::{Error, Result};

/// The identity of a process, in this boot and any other (G5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// The inode of the pid namespace of that number; 0 if unknown.
    pub namespace: u32,
    /// The start time in ticks after boot; 0 if unknown.
    pub start_ticks: u64,
    /// The boot of the machine.
    pub boot_id: [u8; 16],
}

/// A process that has a grant.
#[derive(Clone, Debug)]
pub struct Process {
    identity: ProcessIdentity,
    watch: ProcessState,
}

#[derive(Clone, Debug)]
enum ProcessState {
    /// A process with a descriptor, which can be asked.
    By(PidFd),
    /// A process of an earlier boot, or one whose number is free or belongs to another process.
    Ended,
    /// A process that cannot be looked up from here; it counts as living.
    Unknown,
}

impl Process {
    /// Returns the calling process, in the boot `boot_id`.
    pub fn of(caller: &Caller, boot_id: [u8; 16]) -> Self {
        let start_ticks = start_ticks(caller.pid).unwrap_or(0);
        // The start time was read while the process lived, so it is not the start time of a later process with the same
        // number.
        let start_ticks = if caller.process.is_alive() { start_ticks } else { 0 };
        let identity = ProcessIdentity { pid: caller.pid, namespace: namespace(), start_ticks, boot_id };
        Self { identity, watch: ProcessState::By(caller.process.clone()) }
    }

    /// Returns the process that an earlier owner recorded as `identity`, looked up in the boot `boot_id`.
    pub fn recall(identity: ProcessIdentity, boot_id: [u8; 16]) -> Self {
        Self { identity, watch: find(identity, boot_id) }
    }

    /// Returns the identity.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// Returns true unless the process is known to have ended.
    pub fn is_alive(&self) -> bool {
        match &self.watch {
            ProcessState::By(process) => process.is_alive(),
            ProcessState::Ended => false,
            ProcessState::Unknown => true,
        }
    }

    /// Returns the open files of the process that lie at `link` by the kernel, opened again to read and write. Returns
    /// none if the process has ended, is of another pid namespace, or must not be inspected.
    pub fn files_at(&self, link: &Path) -> Vec<File> {
        let ProcessState::By(process) = &self.watch else { return Vec::new() };
        let Ok(listed) = fs::read_dir(format!("/proc/{}/fd", self.identity.pid)) else { return Vec::new() };
        let is_there = |path: &Path| fs::read_link(path).is_ok_and(|leads| leads == link);
        // The path may have become a device on which an open waits.
        let open = |path| File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).ok();
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_there(path));
        let files = paths.filter_map(open).collect();
        // A living process keeps its number, so the files are its own (G5).
        if process.is_alive() { files } else { Vec::new() }
    }
}

fn find(identity: ProcessIdentity, boot_id: [u8; 16]) -> ProcessState {
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
        // The start time was read after the descriptor was opened: if that process still lives, the time is its own.
        Some(started) if identity.start_ticks != 0 && started != identity.start_ticks && process.is_alive() => {
            ProcessState::Ended
        }
        _ => ProcessState::By(process),
    }
}

/// Returns true if no process has the number, or only a thread other than the first of its process has it (EINVAL in
/// older kernels).
fn is_no_process(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT | libc::EINVAL))
}

/// Returns the start time of process `pid`: the 22nd word of its stat, counted from behind its name, which may hold any
/// bytes.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn namespace() -> u32 {
    fs::metadata("/proc/self/ns/pid").ok().and_then(|found| u32::try_from(found.ino()).ok()).unwrap_or(0)
}

/// Opens the file of `fd` again for reading only.
pub(super) fn reopen_to_read(fd: &OwnedFd) -> Result<OwnedFd> {
    let reopened = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let failed = |e: io::Error| Error::Medium(ferrite_memory::Error::io("reopening the pool for reading", e));
    reopened.map(OwnedFd::from).map_err(failed)
}
