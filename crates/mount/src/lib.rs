//! A file system of a pool, mounted: the thin end between FUSE and [`FileSystem`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrite_fs::direct::Copies;
use ferrite_fs::{DataMode, FileSystem, Ino};
use fuser::{BackgroundSession, Config, Filesystem, INodeNo, MountOption, Notifier, Session, SessionACL};

use ferrite_fuse::Mount;
use ferrite_fuse::Steady;
use ferrite_fuse::{self as fuse, is_root};

mod attributes;
mod backlog;
mod bell;
mod content;
mod cut_off;
mod errno;
mod folder;
mod front;
mod hollow;
mod kernel;
mod listing;
mod lost;
mod reserve;
mod rights;
mod stale;
#[cfg(test)]
pub(crate) mod tests;
mod told;
mod words;
mod write_back;

pub use cut_off::cut_off;
pub use ferrite_fuse::device_number;
pub use folder::ensure_own_links;
pub use hollow::Hollow;
pub use stale::{Answer, ask, clear_stale};

use bell::Bell;
use folder::{Folder, mounts_at, resolved, unmount};
use front::Front;

/// The kind of our mounts, as the kernel lists them.
const KIND: &str = "fuse.ferrite";
/// How long a mount that is gone here may be held by a copy of it before that is told.
const COPIES_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two looks whether it is.
const LOOKS: Duration = Duration::from_millis(5);

/// How to mount.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// What the kernel calls the source: the pool and the file system's name.
    pub source: String,
    /// Let the kernel keep writes back until they are flushed: near the speed of memory for every program, durable at
    /// fsync. Reads are cached either way.
    pub cached: bool,
    /// Let other users in. A user other than root needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Refuse changes.
    pub read_only: bool,
    /// Let set-user-id, set-group-id and file capabilities take effect.
    pub suid: bool,
    /// Let device nodes be opened.
    pub dev: bool,
    /// Percent of the space that only root and this process's user take.
    pub reserve_percent: u8,
    /// Threads that answer.
    pub threads: usize,
}

/// A mounted file system, and the threads that answer for it. Dropped, it is taken out of sight.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    /// See [`MountOptions::source`].
    source: PathBuf,
    /// As the kernel lists it, if it does.
    device: Option<u64>,
    session: Option<BackgroundSession>,
    bell: Arc<Bell>,
    worker: Option<JoinHandle<()>>,
}

/// Why a file system is still mounted.
#[derive(Debug)]
pub enum NotUnmounted {
    /// Programs use it: these, as far as can be seen.
    Busy(Vec<String>),
    /// The system refused.
    Io(io::Error),
}

/// What the kernel keeps of the files of a mount.
struct KernelCopies {
    notifier: Notifier,
    device: Option<u64>,
}

impl Copies for KernelCopies {
    fn forget(&self, ino: Ino) -> io::Result<()> {
        match self.notifier.inval_inode(INodeNo(ino.0), 0, 0) {
            // It knows no such file.
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            told => told,
        }
    }

    fn forget_attributes(&self, ino: Ino) {
        // Content is not meant by a place before the first. An inode that it does not know has none.
        let _ = self.notifier.inval_inode(INodeNo(ino.0), -1, 0);
    }

    fn device(&self) -> Option<u64> {
        self.device
    }
}

impl Mounted {
    /// Mounts `fs` on `point`, a folder. What a killed server left mounted there is cleared first.
    ///
    /// # Errors
    /// With nothing mounted, also where `point` is in use by a live mount of ours.
    pub fn start(fs: &Arc<FileSystem>, point: &Path, options: &MountOptions) -> io::Result<Self> {
        clear_stale(point)?;
        if !is_root() {
            let point = resolved(point);
            refuse_another(mounts_at(&point).find(|mount| mount.kind == KIND))?;
            let front = Steady(Front::new(Arc::clone(fs), options));
            let session = as_user(front, &point, options)?.spawn()?;
            let mounted = mounts_at(&point).filter(|mount| mount.kind == KIND).last();
            return Self::begin(fs, session, (point, mounted), options);
        }
        Self::start_on(fs, &Folder::open(point)?, options)
    }

    /// Mounts `fs` on an open folder, as root (MF1).
    fn start_on(fs: &Arc<FileSystem>, folder: &Folder, options: &MountOptions) -> io::Result<Self> {
        refuse_another(folder.mounted()?.filter(|mount| mount.kind == KIND))?;
        let front = Steady(Front::new(Arc::clone(fs), options));
        let session = as_root(front, folder, options)?.spawn()?;
        let mounted = folder.mounted()?.filter(|mount| mount.kind == KIND);
        Self::begin(fs, session, (folder.path()?, mounted), options)
    }

    fn begin(
        fs: &Arc<FileSystem>,
        session: BackgroundSession,
        (point, mounted): (PathBuf, Option<Mount>),
        options: &MountOptions,
    ) -> io::Result<Self> {
        let device = mounted.map(|mount| mount.device);
        fs.tell_copies(Arc::new(KernelCopies { notifier: session.notifier(), device }));
        if options.cached && fs.data_mode() != DataMode::Posix {
            // Without it programs that write much wait for the server: slower, and nothing else.
            let _ = device.map(backlog::widen);
        }
        let bell = Arc::new(Bell::default());
        let (fs, rung) = (Arc::clone(fs), Arc::clone(&bell));
        let worker = thread::Builder::new().name("ferrite-fs-step".into()).spawn(move || rung.work(&fs))?;
        let source = PathBuf::from(&options.source);
        Ok(Self { point, source, device, session: Some(session), bell, worker: Some(worker) })
    }

    /// Where.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Its device number, as the kernel lists it, if it does: no other mount has it meanwhile.
    pub fn device(&self) -> Option<u64> {
        self.device
    }

    /// Whether somebody else has unmounted it, so that nobody uses it any more.
    pub fn has_ended(&mut self) -> bool {
        self.seen_at().is_none() && self.unmount().is_ok()
    }

    /// Where it is seen: where it was mounted, if it is there, otherwise where it or a copy of it is now. Anybody with the
    /// right to may have moved it, or unmounted it and mounted something else.
    pub fn seen_at(&self) -> Option<PathBuf> {
        let Ok(mounts) = Mount::seen_by("self") else { return Some(self.point.clone()) };
        let ours = mounts.into_iter().filter(|mount| self.is(mount));
        let points: Vec<PathBuf> = ours.map(|mount| mount.point).collect();
        if points.contains(&self.point) { Some(self.point.clone()) } else { points.into_iter().next() }
    }

    /// Whether `mount` is it or a copy. Numbers are given again at once, to mounts of any kind.
    fn is(&self, mount: &Mount) -> bool {
        mount.kind == KIND && mount.source == self.source && self.device.is_none_or(|device| mount.device == device)
    }

    /// Takes it away from `point`, where it is seen, unless that would take what somebody mounted over it.
    fn take_from(&self, point: &Path, lazily: bool) -> io::Result<()> {
        if mounts_at(point).last().is_some_and(|uppermost| !self.is(&uppermost)) {
            return Err(io::Error::other("something else was mounted over it: unmount that first"));
        }
        unmount(point, lazily, |mount| self.is(mount))
    }

    /// Where a copy of it is that stays when it is taken from `point`.
    fn copy_beside(&self, point: &Path) -> Option<PathBuf> {
        let mounts = Mount::seen_by("self").ok()?;
        let ours = || mounts.iter().filter(|mount| self.is(mount));
        let taken = ours().rfind(|mount| mount.point == point)?;
        let copy = ours().find(|mount| mount.point != point && !mount.goes_with(taken, &mounts))?;
        Some(copy.point.clone())
    }

    /// Unmounts, unless a program or a copy of it that is seen uses it; then everything is as before. Where files that were
    /// open when it was unmounted lazily do, or a copy in another namespace, it is out of sight here.
    ///
    /// # Errors
    /// Who uses it, or what the system says.
    pub fn unmount(&mut self) -> Result<(), NotUnmounted> {
        let copy_on = |point: &Path| format!("a copy of the mount on {}", point.display());
        if let Some(point) = self.seen_at() {
            // Programs would go on in the folder below.
            if let Some(copy) = self.copy_beside(&point) {
                return Err(NotUnmounted::Busy(vec![copy_on(&copy)]));
            }
            self.take_from(&point, false).map_err(|why| match why.kind() {
                io::ErrorKind::ResourceBusy => NotUnmounted::Busy(users(&point)),
                _ => NotUnmounted::Io(why),
            })?;
        }
        if !self.has_ended_within(COPIES_PATIENCE) {
            return Err(NotUnmounted::Busy(vec![match self.seen_at() {
                Some(copy) => copy_on(&copy),
                None => "files that were open when it was unmounted lazily, or a copy of the mount in another mount \
                             namespace, such as a container's"
                    .into(),
            }]));
        }
        self.end(true).map_err(NotUnmounted::Io)
    }

    /// Whether those who answer end soon: the kernel ends them with the last copy of the mount.
    fn has_ended_within(&self, patience: Duration) -> bool {
        let has_ended = || self.session.as_ref().is_none_or(|session| session.guard.is_finished());
        let until = Instant::now() + patience;
        while !has_ended() && Instant::now() < until {
            thread::sleep(LOOKS);
        }
        has_ended()
    }

    /// Takes it out of sight, whoever uses it: what they have open fails when this process ends. What the kernel holds of
    /// what they wrote is written back first, while somebody answers.
    ///
    /// # Errors
    /// What the system says: it is mounted still, or it is out of sight and not all of that was written back.
    pub fn abandon(mut self) -> io::Result<()> {
        let written = self.seen_at().map_or(Ok(()), |point| write_back(&point));
        while let Some(point) = self.seen_at() {
            self.take_from(&point, true)?;
        }
        self.end(false)?;
        written
    }

    /// Ends the threads. Those that answer end when the last user is gone, so they are waited for only where there is
    /// none.
    fn end(&mut self, unmounted: bool) -> io::Result<()> {
        self.bell.end();
        if let Some(worker) = self.worker.take() {
            // Its panics were told when they happened.
            let _ = worker.join();
        }
        match self.session.take() {
            Some(session) if unmounted => session.join(),
            Some(session) => {
                // Not dropped: that would wait for the unmount which its users put off.
                std::mem::forget(session);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_some() {
            // There is nobody to tell; the next one who mounts there clears it.
            while self.seen_at().is_some_and(|point| self.take_from(&point, true).is_ok()) {}
            let _ = self.end(false);
        }
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads);
    config.clone_fd = options.threads > 1;
    config
}

fn as_root<F: Filesystem>(front: F, folder: &Folder, options: &MountOptions) -> io::Result<Session<F>> {
    let others = if options.allow_other { ",allow_other" } else { "" };
    let rest = format!(",default_permissions{others}");
    let flags = flags(options);
    let connection = fuse::mount(&folder.exact(), &fuse::How { source: &options.source, flags, rest: &rest })?;
    let config = config(options);
    let acl = config.acl;
    Session::from_fd(front, connection, acl, config)
        .inspect_err(|_| _ = folder.path().and_then(|point| unmount(&point, true, |_| true)))
}

fn flags(options: &MountOptions) -> libc::c_ulong {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(options.read_only, libc::MS_RDONLY)
        | flag(!options.suid, libc::MS_NOSUID)
        | flag(!options.dev, libc::MS_NODEV);
    #[cfg(test)]
    let flags = if tests::is_planted(tests::Bug::SuidLifted) { 0 } else { flags };
    flags
}

fn refuse_another(there: Option<Mount>) -> io::Result<()> {
    match there {
        None => Ok(()),
        Some(_) => {
            Err(io::Error::other("a file system is mounted there already; unmount it, or choose another folder"))
        }
    }
}

/// By `fusermount3`, which only mounts what is safe for others. It takes what follows a comma for another option, and of two
/// characters behind a backslash the second.
fn as_user<F: Filesystem>(front: F, point: &Path, options: &MountOptions) -> io::Result<Session<F>> {
    let mut config = config(options);
    config.mount_options = vec![
        MountOption::FSName(options.source.replace('\\', r"\\").replace(',', r"\,")),
        MountOption::Subtype("ferrite".into()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    Session::new(front, point, &config)
}

/// Has the kernel write back what it holds of the file system on `point`. By another process: one of this one's threads
/// would wait for the others, and hold the connection open, when it is killed meanwhile.
fn write_back(point: &Path) -> io::Result<()> {
    let told = |why: &str| io::Error::other(format!("writing back what the kernel holds of open files: {why}"));
    let ended =
        Command::new("sync").args(["-f", "--"]).arg(point).output().map_err(|error| told(&error.to_string()))?;
    if ended.status.success() { Ok(()) } else { Err(told(String::from_utf8_lossy(&ended.stderr).trim())) }
}

/// Programs that have a file under `point` open, work in it or run from it, and what is mounted in it, in words. Only
/// links are read: asking about a file on the mount would wait for ourselves.
fn users(point: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let uses = |process: &PathBuf| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let links = ["cwd", "root", "exe"].into_iter().map(|name| process.join(name)).chain(open);
        links.into_iter().any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(point)))
    };
    let words = |process: PathBuf| {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let pid = process.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("process {pid} ({})", name.trim())
    };
    let is_process = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    let within = |mount: Mount| {
        let is_within = mount.point != point && mount.point.starts_with(point);
        is_within.then(|| format!("the mount on {}", mount.point.display()))
    };
    let mounts = Mount::seen_by("self").unwrap_or_default().into_iter().filter_map(within);
    entries.filter(is_process).filter(uses).map(words).chain(mounts).collect()
}
