//! The process that holds a pool's lock, as far as the kernel shows it.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest command line shown, in characters.
const COMMAND_MAX: usize = 120;

/// The process that holds a pool's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process id; `None` if the kernel hides it (another container).
    pub pid: Option<u32>,
    /// The command line on one line, without the program's folder.
    pub command: Option<String>,
}

impl Holder {
    /// The holder of the lock on `file`.
    pub(super) fn of(file: &Metadata) -> Self {
        Self::find(file).unwrap_or(Self { pid: None, command: None })
    }

    /// The holder of the pool at `path`, if the kernel shows one. Nothing is locked for a moment, as by
    /// [`claim`](super::claim).
    pub fn seen(path: &Path) -> Option<Self> {
        Self::find(&fs::metadata(path).ok()?)
    }

    /// The holder, if the kernel shows one.
    pub fn find(file: &Metadata) -> Option<Self> {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = locks.lines().filter_map(Held::parse).find(|held| held.is_of(file)).map(|held| held.pid)?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok().map(|raw| command_line(&raw));
        let command = command.filter(|command| !command.is_empty());
        Some(Self { pid: Some(pid), command })
    }

    /// Returns true if the process was killed and its threads wait in the kernel. It has the lock until they end.
    pub fn is_dying(&self) -> bool {
        let threads = self.pid.and_then(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).ok();
        let statuses: Vec<String> = threads.into_iter().flatten().flatten().filter_map(status).collect();
        // The first thread of a program may end while others go on.
        !statuses.is_empty() && statuses.iter().all(|status| is_ending(status))
    }

    /// Returns true if the holder is known to be another process than `pid`, which is 0 if the kernel hides it.
    pub fn is_not(&self, pid: u32) -> bool {
        pid != 0 && self.pid.is_some_and(|own| own != pid)
    }

    /// Returns the name by which the holder has `file` open, if this process may see it.
    pub fn name_of(&self, file: &Metadata) -> Option<PathBuf> {
        fs::read_link(opened(self.pid?, file)?).ok()
    }
}

/// A file that a process holds a lock on, as a pool's owner does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedFile {
    /// The process.
    pub pid: u32,
    /// The process's user.
    pub user: u32,
    /// The file, by the name that the process opened it by.
    pub path: PathBuf,
}

impl LockedFile {
    /// Lists the locked files of those processes whose open files this process may look at.
    pub fn all() -> Vec<Self> {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().filter_map(Held::parse).filter_map(|held| Self::of(&held)).collect()
    }

    /// Returns `None` if the file has another name by now, or is not in this process's mount namespace.
    fn of(held: &Held) -> Option<Self> {
        let user = fs::metadata(format!("/proc/{}", held.pid)).ok()?.uid();
        let links = fs::read_dir(format!("/proc/{}/fd", held.pid)).ok()?.flatten().map(|entry| entry.path());
        let named = |link: PathBuf| {
            let file = fs::metadata(&link).ok().filter(|file| held.is_of(file))?;
            let path = fs::read_link(&link).ok()?;
            let seen = fs::metadata(&path).ok()?;
            ((seen.dev(), seen.ino()) == (file.dev(), file.ino())).then_some(path)
        };
        let path = links.into_iter().find_map(named)?;
        Some(Self { pid: held.pid, user, path })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.command) {
            (Some(pid), Some(command)) => write!(f, "held by process {pid} ({command})"),
            (Some(pid), None) => write!(f, "held by process {pid}"),
            _ => write!(f, "held by a process that cannot be seen from here"),
        }
    }
}

/// Returns true if `status`, the text of `/proc/PID/task/TID/status`, is of a thread that has ended or is being killed.
fn is_ending(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_ascii);
    let is_pending = |bits: &str| u64::from_str_radix(bits, 16).is_ok_and(|bits| bits & SIGKILL != 0);
    let has_ended = field("State:").is_some_and(|state| state.starts_with(['Z', 'X']));
    has_ended || ["SigPnd:", "ShdPnd:"].into_iter().filter_map(field).any(is_pending)
}

/// One flock of `/proc/locks`: `7: FLOCK  ADVISORY  WRITE 4711 fe:01:131077 0 EOF`.
struct Held {
    pid: u32,
    device: (u32, u32),
    inode: u64,
}

impl Held {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        // A lock that only waits is written with an arrow before its kind, and holds nothing.
        if words.next()? != "FLOCK" {
            return None;
        }
        let pid = words.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
        let mut place = words.next()?.splitn(3, ':');
        let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
        let device = (hex()?, hex()?);
        Some(Self { pid, device, inode: place.next()?.parse().ok()? })
    }

    /// On btrfs and overlayfs the kernel prints another device than `stat` does; there a process counts only if it
    /// has the very file open.
    fn is_of(&self, file: &Metadata) -> bool {
        let device = (libc::major(file.dev()), libc::minor(file.dev()));
        self.inode == file.ino() && (self.device == device || opened(self.pid, file).is_some())
    }
}

/// The kernel's link to `file` among what process `pid` has open.
fn opened(pid: u32, file: &Metadata) -> Option<PathBuf> {
    let same = |found: Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
    let mut links = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|entry| entry.path());
    links.find(|link| fs::metadata(link).is_ok_and(same))
}

/// A command line from its zero-separated form: one printable line, the program without its folder.
fn command_line(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut words = text.split('\0').filter(|word| !word.is_empty());
    let program = words.next().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
    let line = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(COMMAND_MAX).collect()
}

#[cfg(test)]
mod tests;
