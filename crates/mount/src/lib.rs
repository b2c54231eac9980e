//! Mounts a file system of a pool: the thin layer between the kernel's FUSE and [`FileSystem`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrite_fs::share::CachedCopies;
use ferrite_fs::{DataMode, FileSystem, Ino};
use ferrite_memory::{monotonic_ns, planted};
use fuser::{BackgroundSession, Config, Filesystem, INodeNo, MountOption, Notifier, Session, SessionACL};

use ferrite_fuse::MountEntry;
use ferrite_fuse::{self as fuse, may_mount};
use ferrite_fuse::{FuseCounters, PanicGuard};

mod attributes;
mod cache_policy;
mod content;
mod convert;
mod cut_off;
mod errno;
mod folder;
mod fuse_fs;
mod hollow;
mod kernel;
mod listing;
mod lost;
mod reserve;
mod rights;
mod server;
mod stale;
#[cfg(test)]
pub(crate) mod tests;
mod worker;
mod write_back;

pub use cut_off::cut_off;
pub use ferrite_fuse::device_number;
pub use folder::ensure_own_links;
pub use hollow::Hollow;
pub use stale::{MountAnswer, ask, clear_stale};

use folder::{MountFolder, mounts_at, resolved, unmount};
use server::FuseFs;
use worker::StepWorker;

/// The type of Ferrite's mounts in the kernel's list of mounts.
const KIND: &str = "fuse.ferrite";
/// How long `unmount` waits for copies of the mount to end before it reports them.
const COPIES_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two checks of whether the session has ended.
const LOOKS: Duration = Duration::from_millis(5);

/// The options of a mount.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// The source in the kernel's list of mounts: the pool and the file system's name.
    pub source: String,
    /// The kernel holds writes back until they are flushed: every program writes near the speed of memory, and fsync
    /// makes the writes durable. The kernel caches reads either way.
    pub cached: bool,
    /// Give other users access. A user other than root needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Refuse changes.
    pub read_only: bool,
    /// Let set-user-id, set-group-id and file capabilities take effect.
    pub suid: bool,
    /// Let device nodes be opened.
    pub dev: bool,
    /// The percentage of the space that only root and this process's user may allocate.
    pub reserve_percent: u8,
    /// The number of threads that answer the kernel's requests.
    pub threads: usize,
}

/// A mounted file system, and the threads that answer the kernel's requests. Dropping it unmounts it lazily.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    /// See [`MountOptions::source`].
    source: PathBuf,
    /// The device number of the mount, if the kernel lists the mount.
    device: Option<u64>,
    session: Option<BackgroundSession>,
    worker: Arc<StepWorker>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<FuseCounters>,
}

/// Why `unmount` left a file system mounted.
#[derive(Debug)]
pub enum NotUnmounted {
    /// Programs use the mount. The list names those that this process can see.
    Busy(Vec<String>),
    /// The kernel refused.
    Io(io::Error),
}

/// The kernel's cached copies of files of one mount.
struct KernelCopies {
    notifier: Notifier,
    device: Option<u64>,
}

impl CachedCopies for KernelCopies {
    fn forget(&self, ino: Ino) -> io::Result<()> {
        match self.notifier.inval_inode(INodeNo(ino.0), 0, 0) {
            // The kernel has no copy of this file.
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            describe => describe,
        }
    }

    fn forget_attributes(&self, ino: Ino) {
        // The offset -1 selects the attributes alone. The kernel has no attributes of an inode that it does not know.
        let _ = self.notifier.inval_inode(INodeNo(ino.0), -1, 0);
    }

    fn device(&self) -> Option<u64> {
        self.device
    }
}

/// Returns `fs` as the kernel asks it, and the counters of its requests.
fn counted(fs: &Arc<FileSystem>, options: &MountOptions) -> (PanicGuard<FuseFs>, Arc<FuseCounters>) {
    let counters = Arc::new(FuseCounters::new(monotonic_ns));
    (PanicGuard::counted(FuseFs::new(Arc::clone(fs), options), Arc::clone(&counters)), counters)
}

impl Mounted {
    /// Mounts `fs` on the folder `point`, after it has cleared a mount that a killed server left there.
    ///
    /// # Errors
    /// If the kernel refuses, or if a live server has a file system mounted on `point`. Nothing is mounted then.
    pub fn start(fs: &Arc<FileSystem>, point: &Path, options: &MountOptions) -> io::Result<Self> {
        clear_stale(point)?;
        if !may_mount() {
            let point = resolved(point);
            refuse_another(mounts_at(&point).find(|mount| mount.kind == KIND))?;
            let (fuse_fs, counters) = counted(fs, options);
            let session = as_user(fuse_fs, &point, options)?.spawn()?;
            let mounted = mounts_at(&point).filter(|mount| mount.kind == KIND).last();
            return Self::begin(fs, session, point, mounted, options, counters);
        }
        Self::start_on(fs, &MountFolder::open(point)?, options)
    }

    /// Mounts `fs` on an open folder, with the right to mount (MF1).
    fn start_on(fs: &Arc<FileSystem>, folder: &MountFolder, options: &MountOptions) -> io::Result<Self> {
        refuse_another(folder.mounted()?.filter(|mount| mount.kind == KIND))?;
        let (fuse_fs, counters) = counted(fs, options);
        let session = as_root(fuse_fs, folder, options)?.spawn()?;
        let mounted = folder.mounted()?.filter(|mount| mount.kind == KIND);
        Self::begin(fs, session, folder.path()?, mounted, options, counters)
    }

    fn begin(
        fs: &Arc<FileSystem>,
        session: BackgroundSession,
        point: PathBuf,
        mounted: Option<MountEntry>,
        options: &MountOptions,
        counters: Arc<FuseCounters>,
    ) -> io::Result<Self> {
        let device = mounted.map(|mount| mount.device);
        fs.set_copies(Arc::new(KernelCopies { notifier: session.notifier(), device }));
        if options.cached && fs.data_mode() != DataMode::Posix {
            // If this fails, programs that write much wait for the server more often.
            let _ = device.map(fuse::widen_backlog);
        }
        let worker = Arc::new(StepWorker::default());
        let (fs, rung) = (Arc::clone(fs), Arc::clone(&worker));
        let thread = thread::Builder::new().name("ferrite-fs-step".into()).spawn(move || rung.work(&fs))?;
        let source = PathBuf::from(&options.source);
        Ok(Self { point, source, device, session: Some(session), worker, thread: Some(thread), counters })
    }

    /// Returns the counters of the kernel's requests.
    pub fn counters(&self) -> &FuseCounters {
        &self.counters
    }

    /// Returns the folder at which `start` mounted the file system.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Returns the device number of the mount, if the kernel lists the mount. No other mount has the same number while
    /// this mount lives.
    pub fn device(&self) -> Option<u64> {
        self.device
    }

    /// Returns true if another process has unmounted the file system, and no program uses it any more.
    pub fn has_ended(&mut self) -> bool {
        self.seen_at().is_none() && self.unmount().is_ok()
    }

    /// Returns a folder at which the mount is visible: the folder of `start` if possible, otherwise the folder of a copy
    /// or to which a user moved the mount.
    pub fn seen_at(&self) -> Option<PathBuf> {
        let Ok(mounts) = MountEntry::seen_by("self") else { return Some(self.point.clone()) };
        let ours = mounts.into_iter().filter(|mount| self.is(mount));
        let points: Vec<PathBuf> = ours.map(|mount| mount.point).collect();
        if points.contains(&self.point) { Some(self.point.clone()) } else { points.into_iter().next() }
    }

    /// Returns true if `mount` is this mount or a copy of it. Compares more than the number, because the kernel reuses a
    /// free number at once, for mounts of any type.
    fn is(&self, mount: &MountEntry) -> bool {
        mount.kind == KIND && mount.source == self.source && self.device.is_none_or(|device| mount.device == device)
    }

    /// Unmounts from `point`, unless another file system is mounted over this one.
    fn take_from(&self, point: &Path, lazily: bool) -> io::Result<()> {
        if mounts_at(point).last().is_some_and(|uppermost| !self.is(&uppermost)) {
            return Err(io::Error::other("something else was mounted over it: unmount that first"));
        }
        unmount(point, lazily, |mount| self.is(mount))
    }

    /// Returns the folder of a copy that stays mounted after an unmount from `point`.
    fn copy_beside(&self, point: &Path) -> Option<PathBuf> {
        let mounts = MountEntry::seen_by("self").ok()?;
        let ours = || mounts.iter().filter(|mount| self.is(mount));
        let taken = ours().rfind(|mount| mount.point == point)?;
        let copy = ours().find(|mount| mount.point != point && !mount.goes_with(taken, &mounts))?;
        Some(copy.point.clone())
    }

    /// Unmounts, unless a program or a visible copy of the mount uses the file system; then the mount stays as it was. If
    /// only open files of a lazy unmount or a copy in another mount namespace use it, it is no longer visible here.
    ///
    /// # Errors
    /// [`NotUnmounted::Busy`] with the users of the mount, or [`NotUnmounted::Io`] with the kernel's error.
    pub fn unmount(&mut self) -> Result<(), NotUnmounted> {
        let copy_on = |point: &Path| format!("a copy of the mount on {}", point.display());
        if let Some(point) = self.seen_at() {
            // Programs would continue in the folder below the mount.
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

    /// Returns true if no thread answers the kernel any more.
    fn has_session_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Returns true if the session ends within `patience`. The kernel ends it with the last copy of the mount.
    fn has_ended_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.has_session_ended() && Instant::now() < until {
            thread::sleep(LOOKS);
        }
        self.has_session_ended()
    }

    /// Makes the kernel write back what it holds of the file system on `point`, by a child process. A thread of this
    /// process would hold the FUSE connection open while it waits, and a kill would not end it. The child gets no answer
    /// once the session has ended, for want of descriptors for example.
    fn write_back(&self, point: &Path) -> io::Result<()> {
        let failed = |why: &str| io::Error::other(format!("writing back what the kernel holds of open files: {why}"));
        let mut sync = Command::new("sync");
        sync.args(["-f", "--"]).arg(point).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = sync.spawn().map_err(|error| failed(&error.to_string()))?;
        while child.try_wait()?.is_none() {
            if self.has_session_ended() {
                child.kill()?;
                child.wait()?;
                return Err(failed("the threads that answer the kernel have ended"));
            }
            thread::sleep(LOOKS);
        }
        let ended = child.wait_with_output()?;
        if ended.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&ended.stderr).trim())) }
    }

    /// Unmounts lazily, even if programs use the file system: their open files fail when this process ends. The kernel
    /// writes back what it holds of their writes first, while the server still answers.
    ///
    /// # Errors
    /// If the file system is still mounted, or if the kernel could not write everything back.
    pub fn abandon(mut self) -> io::Result<()> {
        let written = self.seen_at().map_or(Ok(()), |point| self.write_back(&point));
        while let Some(point) = self.seen_at() {
            self.take_from(&point, true)?;
        }
        self.end(false)?;
        written
    }

    /// Ends the threads. The threads of the session end with its last user, so this waits for them only if the file
    /// system is `unmounted`.
    fn end(&mut self, unmounted: bool) -> io::Result<()> {
        self.worker.end();
        if let Some(thread) = self.thread.take() {
            // Rust printed a panic of the thread when it happened.
            let _ = thread.join();
        }
        match self.session.take() {
            Some(session) if unmounted => session.join(),
            Some(session) => {
                // Dropping the session would wait for its users.
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
            // A destructor cannot report an error. The next mount on the folder clears what stays.
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

fn as_root<F: Filesystem>(fuse_fs: F, folder: &MountFolder, options: &MountOptions) -> io::Result<Session<F>> {
    let others = if options.allow_other { ",allow_other" } else { "" };
    let rest = format!(",default_permissions{others}");
    let flags = flags(options);
    let connection = fuse::mount(
        &folder.exact(),
        &fuse::MountSpec { source: &options.source, flags, rest: &rest, root: fuse::RootKind::Folder },
    )?;
    let config = config(options);
    let acl = config.acl;
    Session::from_fd(fuse_fs, connection, acl, config)
        .inspect_err(|_| _ = folder.path().and_then(|point| unmount(&point, true, |_| true)))
}

fn flags(options: &MountOptions) -> libc::c_ulong {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(options.read_only, libc::MS_RDONLY)
        | flag(!options.suid, libc::MS_NOSUID)
        | flag(!options.dev, libc::MS_NODEV);
    if planted!("mount: suid lifted") { 0 } else { flags }
}

fn refuse_another(there: Option<MountEntry>) -> io::Result<()> {
    match there {
        None => Ok(()),
        Some(_) => {
            Err(io::Error::other("a file system is mounted there already; unmount it, or choose another folder"))
        }
    }
}

/// Mounts by `fusermount3`, which is set-user-id root and applies its own safety rules. The program separates options at
/// commas and removes backslashes, so both are escaped.
fn as_user<F: Filesystem>(fuse_fs: F, point: &Path, options: &MountOptions) -> io::Result<Session<F>> {
    let mut config = config(options);
    config.mount_options = vec![
        MountOption::FSName(options.source.replace('\\', r"\\").replace(',', r"\,")),
        MountOption::Subtype("ferrite".into()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    Session::new(fuse_fs, point, &config)
}

/// Returns descriptions of the processes that have a file under `point` open, work in it or run from it, and of mounts
/// in it. Reads only links of `/proc`: a `stat` of a file on the mount would wait for this server.
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
    let within = |mount: MountEntry| {
        let is_within = mount.point != point && mount.point.starts_with(point);
        is_within.then(|| format!("the mount on {}", mount.point.display()))
    };
    let mounts = MountEntry::seen_by("self").unwrap_or_default().into_iter().filter_map(within);
    entries.filter(is_process).filter(uses).map(words).chain(mounts).collect()
}
