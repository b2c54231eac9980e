//! Mounts of Ferrite's file systems in the kernel's list.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use ferrite_fs::share::layout::mount_source::read_mount_source;
use ferrite_fs_client::FsSession;
use ferrite_memory::MountLine;
use ferrite_mount::MountAnswer;
use ferrite_mount::ask;
use ferrite_mount::clear_stale;
use ferrite_owner::machine;
use ferrite_owner::paths::in_line;
use ferrite_owner::paths::quoted;
use ferrite_pool::Holder;

use crate::filesystems::{self, SeenMount, Which};

const KIND: &str = "fuse.ferrite";

/// Time that an owner has to answer.
const PATIENCE: Duration = Duration::from_millis(500);

struct ServedMount {
    device: u64,
    point: PathBuf,
    options: Vec<String>,
    kind: String,
    source: PathBuf,
    /// The user who mounted it, if the kernel lists that.
    user: Option<u32>,
}

impl ServedMount {
    /// Returns the pool and the file system of a mount of Ferrite. Disks that are attached by FUSE have another source.
    fn file_system(&self) -> Option<(PathBuf, String)> {
        read_mount_source(&self.source.to_string_lossy()).filter(|_| self.kind == KIND)
    }
}

/// Returns true if `folder` has content that a mount there would hide. A mount of a killed owner is removed first; a
/// mount of Ferrite refuses another one.
pub fn would_hide(folder: &Path) -> bool {
    // Mounting there reports the error.
    let _ = clear(folder);
    file_system_on(folder).is_none() && fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some())
}

/// Returns the pool and the file system of Ferrite that is mounted on `point`.
pub fn file_system_on(point: &Path) -> Option<(PathBuf, String)> {
    seen_on(point).map(|(pool, which)| (pool, which.name))
}

/// As [`file_system_on`], with the mount: another server's file system may have the same name.
pub fn seen_on(point: &Path) -> Option<(PathBuf, Which)> {
    let point = point.canonicalize().ok()?;
    // The last mount hides the others.
    let mount = listed().into_iter().rfind(|mount| mount.point == point)?;
    let (pool, name) = mount.file_system()?;
    Some((pool, Which { name, seen: Some(SeenMount { point, device: mount.device }) }))
}

/// Returns the reason why no folder is visible at `point`, if another user has mounted a file system of Ferrite there:
/// the kernel hides from this user whether a server answers.
pub fn hindrance_at(point: &Path) -> Option<String> {
    let seen = point.canonicalize().ok()?;
    let mount =
        listed().into_iter().rfind(|mount| mount.point == seen).filter(|mount| mount.file_system().is_some())?;
    let (own, _) = machine::user().ok()?;
    let user = mount.user.filter(|user| *user != own)?;
    let (shown, typed) = (in_line(point), quoted(&seen));
    Some(format!(
        "what user {user} mounted on {shown} is there still, maybe by a server that was killed: root takes it away by `ferrite \
         fs unmount {typed}`"
    ))
}

/// Returns the folders on which the file system called `name` of the pool at `pool` is mounted.
pub fn points_of(pool: &Path, name: &str) -> Vec<PathBuf> {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_it = |mount: &ServedMount| mount.file_system().is_some_and(|(at, known)| at == pool && known == name);
    listed().into_iter().filter(is_it).map(|mount| mount.point).collect()
}

/// Cuts off the mounts that `holder` of the pool at `pool`, which was killed, waits for in the kernel: then it ends.
pub fn cut_off(pool: &Path, holder: &Holder) {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_its = |source: &str| read_mount_source(source).is_some_and(|(at, _)| at == pool);
    if let Some(pid) = holder.pid {
        // A user without the right gets the advice about `umount -f`.
        let _ = ferrite_mount::cut_off(pid, |source| is_its(&source.to_string_lossy()));
    }
}

/// Returns the mounts of the pool at `pool` for which no server answers.
pub fn unanswered(pool: &Path) -> Vec<PathBuf> {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_unanswered = |point: &PathBuf| ask(point, PATIENCE).is_ok_and(|answer| answer != MountAnswer::Alive);
    let is_one = |mount: &ServedMount| mount.file_system().is_some_and(|(at, _)| at == pool);
    listed().into_iter().filter(is_one).map(|mount| mount.point).filter(is_unanswered).collect()
}

/// Removes the mount of a killed owner on `point`, see [`clear_stale`]. Returns true if there was one. An owner that
/// waits in the kernel is cut off first.
///
/// # Errors
/// The error of the system if the mount cannot be removed.
pub fn clear(point: &Path) -> io::Result<bool> {
    let dying = file_system_on(point).and_then(|(pool, _)| Some((Holder::seen(&pool)?, pool)));
    if let Some((holder, pool)) = dying.filter(|(holder, _)| holder.is_dying()) {
        cut_off(&pool, &holder);
    }
    clear_stale(point)
}

/// Returns where earlier owners of the pool at `pool`, which this process owns now, have left it mounted elsewhere than
/// on `point`. A mount that answers is a living server's.
pub fn left_elsewhere(pool: &Path, point: Option<&Path>) -> Vec<PathBuf> {
    let point = point.and_then(|point| point.canonicalize().ok());
    let is_its = |mount: &ServedMount| mount.file_system().is_some_and(|(at, _)| at == pool);
    let is_dead = |mount: &ServedMount| ask(&mount.point, PATIENCE).is_ok_and(|answer| answer == MountAnswer::Dead);
    let left = |mount: &ServedMount| is_its(mount) && Some(&mount.point) != point.as_ref() && is_dead(mount);
    listed().into_iter().filter(left).map(|mount| mount.point).collect()
}

/// Returns the file systems that `command` or its folder names and whose owners serve no client directly, and why;
/// `None` if no file system of ferrite is mounted.
pub fn not_direct(command: &[OsString]) -> Option<Vec<(PathBuf, String)>> {
    let here = std::env::current_dir().unwrap_or_default();
    let all: Vec<_> = listed().into_iter().filter(|mount| mount.file_system().is_some()).collect();
    if all.is_empty() {
        return None;
    }
    Some(refused(all.into_iter().filter(|mount| is_named(&mount.point, &here, command)).collect()))
}

/// Lists the mounts for which no process answers any more, each with its pool.
pub fn left() -> Vec<(PathBuf, PathBuf)> {
    let is_dead = |point: &PathBuf| ask(point, PATIENCE).is_ok_and(|answer| answer == MountAnswer::Dead);
    let found = listed().into_iter().filter_map(|mount| Some((mount.file_system()?.0, mount.point)));
    found.filter(|(_, point)| is_dead(point)).map(|(pool, point)| (point, pool)).collect()
}

/// Returns the message about a mount on `point` that [`clear`] removed.
pub fn cleared(point: &Path) -> String {
    format!("unmounted the dead {}", in_line(point))
}

/// Returns the mounts whose owners serve no client directly, and why. An owner that does not answer soon is left out: the
/// program that is about to start may not need it.
fn refused(mounts: Vec<ServedMount>) -> Vec<(PathBuf, String)> {
    let (tell, message) = channel();
    let asked = mounts.into_iter().filter_map(|mount| {
        let tell = tell.clone();
        let ask = move || {
            let (pool, name) = mount.file_system()?;
            FsSession::connect(&pool, &name, Arc::new(filesystems::now)).err().map(|why| (mount.point, why.to_string()))
        };
        // An answer after the time limit is dropped. Without a thread the mount is left out.
        Builder::new().spawn(move || drop(tell.send(ask()))).ok()
    });
    let asked = asked.count();
    let until = Instant::now() + PATIENCE;
    let left = || until.saturating_duration_since(Instant::now());
    (0..asked).map_while(|_| message.recv_timeout(left()).ok()).flatten().collect()
}

/// Returns true if the folder `here` or a word of `command` names a path in the mount on `point`.
fn is_named(point: &Path, here: &Path, command: &[OsString]) -> bool {
    let point_bytes = point.as_os_str().as_encoded_bytes();
    // An option has the path behind an equals sign, a script anywhere.
    let has_it = |word: &OsString| word.as_encoded_bytes().windows(point_bytes.len()).any(|part| part == point_bytes);
    let leads_there = |word: &OsString| here.join(word).canonicalize().is_ok_and(|path| path.starts_with(point));
    here.starts_with(point) || command.iter().any(|word| has_it(word) || leads_there(word))
}

/// Returns true if `folder` lies on a mount from which no program may be run.
pub fn forbids_programs(folder: &Path) -> bool {
    let over = listed().into_iter().filter(|mount| folder.starts_with(&mount.point));
    let last = over.max_by_key(|mount| mount.point.components().count());
    last.is_some_and(|mount| mount.options.iter().any(|option| option == "noexec"))
}

fn listed() -> Vec<ServedMount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parsed).collect()
}

fn parsed(line: &[u8]) -> Option<ServedMount> {
    let line = MountLine::parse(line)?;
    let user = line.fs_options.iter().find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    let device = line.device();
    Some(ServedMount { device, point: line.point, options: line.options, kind: line.kind, source: line.source, user })
}

#[cfg(test)]
mod tests;
