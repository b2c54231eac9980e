//! What is mounted, as the kernel lists it: our file systems, and which of them cannot be reached directly.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use ferrite_fs::share::layout::mount_source::read_mount_source;
use ferrite_fs_client::FsSession;
use ferrite_memory::unescaped;
use ferrite_mount::MountAnswer;
use ferrite_mount::ask;
use ferrite_mount::clear_stale;
use ferrite_mount::device_number;
use ferrite_owner::machine;
use ferrite_owner::paths::in_line;
use ferrite_owner::paths::quoted;
use ferrite_pool::Holder;

use crate::filesystems::{self, Seen, Which};

const KIND: &[u8] = b"fuse.ferrite";

/// How long owners are waited for before a program starts, or before it is said that one does not answer.
const PATIENCE: Duration = Duration::from_millis(500);

struct Mount {
    device: u64,
    point: PathBuf,
    options: Vec<u8>,
    kind: Vec<u8>,
    source: Vec<u8>,
    /// Who mounted it, where the kernel tells.
    user: Option<u32>,
}

impl Mount {
    /// The pool and the file system, if it is one of ours: disks that are attached by FUSE have another source.
    fn file_system(&self) -> Option<(PathBuf, String)> {
        read_mount_source(&String::from_utf8_lossy(&self.source)).filter(|_| self.kind == KIND)
    }
}

/// Whether `folder` holds what a mount there would hide: not where one of ours is, which refuses another. What a killed
/// owner left mounted there is taken away first.
pub fn would_hide(folder: &Path) -> bool {
    // Whoever mounts there is told why it cannot be.
    let _ = clear(folder);
    file_system_on(folder).is_none() && fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some())
}

/// The pool and the file system that is mounted on `point`, if one of ours is.
pub fn file_system_on(point: &Path) -> Option<(PathBuf, String)> {
    seen_on(point).map(|(pool, which)| (pool, which.name))
}

/// The same, with the mount itself: another server's may be called so, too.
pub fn seen_on(point: &Path) -> Option<(PathBuf, Which)> {
    let point = point.canonicalize().ok()?;
    // What was mounted there last hides the others.
    let mount = listed().into_iter().rfind(|mount| mount.point == point)?;
    let (pool, name) = mount.file_system()?;
    Some((pool, Which { name, seen: Some(Seen { point, device: mount.device }) }))
}

/// Why no folder is seen at `point`, where another user has mounted one of ours there: the kernel does not tell this user
/// whether anybody answers for that.
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

/// Where the file system called `name` of the pool at `pool` is mounted.
pub fn points_of(pool: &Path, name: &str) -> Vec<PathBuf> {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_it = |mount: &Mount| mount.file_system().is_some_and(|(at, known)| at == pool && known == name);
    listed().into_iter().filter(is_it).map(|mount| mount.point).collect()
}

/// Has `holder` of the pool at `pool`, which was killed and does not come to its end, do so: what it waits for is cut off.
pub fn cut_off(pool: &Path, holder: &Holder) {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_its = |source: &str| read_mount_source(source).is_some_and(|(at, _)| at == pool);
    if let Some(pid) = holder.pid {
        // Whoever may not do it says where it is to be done.
        let _ = ferrite_mount::cut_off(pid, |source| is_its(&source.to_string_lossy()));
    }
}

/// Where something of the pool at `pool` is mounted for which nobody answers, as far as is seen.
pub fn unanswered(pool: &Path) -> Vec<PathBuf> {
    let pool = pool.canonicalize().unwrap_or_else(|_| pool.into());
    let is_unanswered = |point: &PathBuf| ask(point, PATIENCE).is_ok_and(|answer| answer != MountAnswer::Alive);
    let is_one = |mount: &Mount| mount.file_system().is_some_and(|(at, _)| at == pool);
    listed().into_iter().filter(is_one).map(|mount| mount.point).filter(is_unanswered).collect()
}

/// Takes away what a killed owner left mounted on `point`; see [`clear_stale`]. One that waits in the kernel would not
/// answer whether it is there.
pub fn clear(point: &Path) -> io::Result<bool> {
    let dying = file_system_on(point).and_then(|(pool, _)| Some((Holder::seen(&pool)?, pool)));
    if let Some((holder, pool)) = dying.filter(|(holder, _)| holder.is_dying()) {
        cut_off(&pool, &holder);
    }
    clear_stale(point)
}

/// Returns where earlier owners of the pool at `pool`, which this process owns now, have left it mounted elsewhere than on
/// `point`. A mount that answers is a living server's.
pub fn left_elsewhere(pool: &Path, point: Option<&Path>) -> Vec<PathBuf> {
    let point = point.and_then(|point| point.canonicalize().ok());
    let is_its = |mount: &Mount| mount.file_system().is_some_and(|(at, _)| at == pool);
    let is_dead = |mount: &Mount| ask(&mount.point, PATIENCE).is_ok_and(|answer| answer == MountAnswer::Dead);
    let left = |mount: &Mount| is_its(mount) && Some(&mount.point) != point.as_ref() && is_dead(mount);
    listed().into_iter().filter(left).map(|mount| mount.point).collect()
}

/// Returns the file systems that `command` or its folder names and whose owners serve no client directly, and why; `None` if
/// no file system of ferrite is mounted.
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

/// What is said of `point`, where [`clear`] found something.
pub fn cleared(point: &Path) -> String {
    format!("unmounted the dead {}", in_line(point))
}

/// Those of `mounts` whose owners serve nobody directly, and why. Owners that do not answer soon keep no program from
/// starting: it may have nothing to do with them.
fn refused(mounts: Vec<Mount>) -> Vec<(PathBuf, String)> {
    let (tell, told) = channel();
    let asked = mounts.into_iter().filter_map(|mount| {
        let tell = tell.clone();
        let ask = move || {
            let (pool, name) = mount.file_system()?;
            FsSession::connect(&pool, &name, Arc::new(filesystems::now)).err().map(|why| (mount.point, why.to_string()))
        };
        // After the last look nobody hears it. Where there is no thread nobody is told why.
        Builder::new().spawn(move || drop(tell.send(ask()))).ok()
    });
    let asked = asked.count();
    let until = Instant::now() + PATIENCE;
    let left = || until.saturating_duration_since(Instant::now());
    (0..asked).map_while(|_| told.recv_timeout(left()).ok()).flatten().collect()
}

/// Whether the folder `here` or a word of `command` lies in the mount on `point`, as far as the word tells.
fn is_named(point: &Path, here: &Path, command: &[OsString]) -> bool {
    let point_bytes = point.as_os_str().as_encoded_bytes();
    // An option may have it behind an equals sign, and a script somewhere within.
    let has_it = |word: &OsString| word.as_encoded_bytes().windows(point_bytes.len()).any(|part| part == point_bytes);
    let leads_there = |word: &OsString| here.join(word).canonicalize().is_ok_and(|path| path.starts_with(point));
    here.starts_with(point) || command.iter().any(|word| has_it(word) || leads_there(word))
}

/// Whether `folder` lies on a mount from which no program may be run.
pub fn forbids_programs(folder: &Path) -> bool {
    let over = listed().into_iter().filter(|mount| folder.starts_with(&mount.point));
    let last = over.max_by_key(|mount| mount.point.components().count());
    last.is_some_and(|mount| mount.options.split(|byte| *byte == b',').any(|option| option == b"noexec"))
}

fn listed() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parsed).collect()
}

/// A line: `36 35 98:0 /root /point options more - kind source options`.
fn parsed(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let device = device_number(std::str::from_utf8(words.nth(2)?).ok()?)?;
    let point = OsString::from_vec(unescaped(words.nth(1)?)).into();
    let options = words.next()?.to_vec();
    words.find(|word| *word == b"-")?;
    let (kind, source) = (words.next()?.to_vec(), unescaped(words.next()?));
    let user = words.next().and_then(user_of);
    Some(Mount { device, point, options, kind, source, user })
}

fn user_of(options: &[u8]) -> Option<u32> {
    let user = options.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"user_id="))?;
    std::str::from_utf8(user).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_a_mount_by_a_word_or_by_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        let point = at.join("mnt");
        fs::create_dir(&point).expect("made");
        let is_named = |here: &Path, word: String| is_named(&point, here, &["program".into(), word.into()]);
        assert!(is_named(&point.join("below"), "x".into()));
        assert!(is_named(&at, format!("--dir={}/x", point.display())));
        assert!(is_named(&at, "mnt/../mnt".into()));
        assert!(!is_named(&at, "other".into()) && !is_named(&at, format!("{}", at.display())));
    }

    #[test]
    fn a_mount_would_hide_what_is_in_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        assert!(!would_hide(at) && !would_hide(&at.join("is not there")));
        fs::write(at.join(".hidden"), "").expect("written");
        assert!(would_hide(at) && !would_hide(&at.join(".hidden")), "what is no folder cannot be mounted on");
    }

    #[test]
    fn lines_of_the_kernels_list_are_read() {
        let mount = parsed(br"36 35 0:42 / /mnt/a\040b rw,noexec shared:7 - fuse.ferrite /var/a\040b:files rw")
            .expect("a mount");
        assert_eq!((mount.point.to_str(), &mount.source[..]), (Some("/mnt/a b"), &b"/var/a b:files"[..]));
        assert_eq!(mount.device, libc::makedev(0, 42));
        assert_eq!(mount.user, None);
        assert!(parsed(b"").is_none());
    }
}
