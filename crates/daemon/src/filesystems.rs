//! The mounted file systems of a pool.

mod folder;
mod fs_metrics;
mod held_ssds;
mod request;
mod service;
mod tier_service;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_cache::MemberOpener;
use ferrite_fs::share::layout::mount_source::mount_source;
use ferrite_fs::share::layout::request::ClientRequest;
use ferrite_fs::{AdoptedSsds, DataMode, FileSystem, FsOptions, FsSpec, TierOpening, Time, adopt_ssds};
use ferrite_memory::stamp_ns;
use ferrite_mount::{MountOptions, Mounted, NotUnmounted, ensure_own_links};
use ferrite_owner::paths::{in_line, quoted};
use ferrite_owner::{ProgressCall, ServicePool, ServiceRegistry, ServiceReply, machine};
use ferrite_pool::{Caller, Failure, Freeze, Pool, Tag, TagKind};
use parking_lot::{Mutex, MutexGuard};

use crate::lacks;
use crate::member_opener::AddressOpener;

pub use request::{FS, FsReport, FsRequest, Mounting, SeenMount, Which};
pub use service::FilesService;
pub use tier_service::TierRequest;

/// The fewest threads of a mount.
const THREADS_MIN: usize = 2;
/// The fewest threads of a mount whose changes wait for a disk: as many as a pool has concurrent transactions.
const THREADS_WAITING: usize = 16;

/// A mounted file system.
struct MountedFs {
    fs: Arc<FileSystem>,
    mounted: Mounted,
    mounting: Mounting,
}

/// The mounted file systems of one pool.
pub struct Filesystems {
    pool: Arc<Pool>,
    registry: Arc<ServiceRegistry>,
    /// The pool's file, which the kernel's list of mounts has as the source.
    path: PathBuf,
    /// This boot of the machine.
    boot_id: [u8; 16],
    /// The reason if no client may read and write files by itself.
    sees_all: Option<&'static str>,
    /// True if only root can have stored anything in the pool.
    is_roots_own: bool,
    mounted: Mutex<BTreeMap<String, MountedFs>>,
    /// Generations of file systems that had no space to spare when they were asked last, and were not mounted since.
    dry: Mutex<BTreeSet<u64>>,
}

/// Returns true if a pool's file belongs to root, and no other user may write to it.
fn is_roots_own(file: &Metadata) -> bool {
    file.uid() == 0 && file.mode() & 0o022 == 0
}

/// The clock of everything a file system stamps.
pub fn now() -> Time {
    Time(stamp_ns())
}

impl MountedFs {
    /// Returns the place and the advice `seen`, as a part of a message.
    fn place(&self, seen: &str) -> String {
        match self.mounted.seen_at() {
            Some(point) => format!("is mounted on {}{seen}", point.display()),
            None => format!(
                "was unmounted from {} and is still in use, by files that were open or a copy of the mount elsewhere: close \
                 them first",
                self.mounted.point().display()
            ),
        }
    }
}

impl Filesystems {
    /// Returns the file systems of a pool that has just been opened; none of them is mounted.
    pub fn new(pool: &ServicePool<'_>) -> Self {
        Self {
            pool: Arc::clone(pool.pool),
            registry: Arc::clone(pool.registry),
            path: pool.lock.path().into(),
            boot_id: pool.boot_id,
            sees_all: pool.memory.sees_all,
            is_roots_own: pool.lock.file().metadata().is_ok_and(|file| is_roots_own(&file)),
            mounted: Mutex::default(),
            dry: Mutex::default(),
        }
    }

    /// Refuses to give effect to rights that a user other than root may have put into the pool.
    fn ensure_lifted_by_root(&self, mounting: &Mounting) -> Result<(), Failure> {
        if !(mounting.suid || mounting.dev) || self.is_roots_own && machine::user().is_ok_and(|(user, _)| user == 0) {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "--suid and --dev are for root, and a pool that only root can have written to: {} must belong to root and be \
             writable for root alone",
            in_line(&self.path)
        )))
    }

    /// Returns the mounted file systems, without those that a user has unmounted by hand.
    fn mounted(&self) -> MutexGuard<'_, BTreeMap<String, MountedFs>> {
        let mut mounted = self.mounted.lock();
        mounted.retain(|_, tree| {
            let has_ended = tree.mounted.has_ended();
            if has_ended {
                tree.fs.dismiss();
                // A failure poisons the pool, and the next opening reports it.
                let _ = tree.fs.flush();
            }
            !has_ended
        });
        mounted
    }

    /// Returns true if a file system is mounted.
    pub fn is_mounted(&self) -> bool {
        !self.mounted().is_empty()
    }

    /// Creates a file system whose root belongs to this process's user.
    ///
    /// # Errors
    /// The failure of making the tag, such as the kind [`ferrite_pool::FailureKind::Exists`] or
    /// [`ferrite_pool::FailureKind::Full`].
    pub fn create(&self, name: &str, super_threshold_bytes: Option<u64>) -> Result<(), Failure> {
        let seed = machine::random_uuid().map_err(Failure::failed)?;
        let (uid, gid) = machine::user().map_err(Failure::failed)?;
        let spec = FsSpec {
            super_threshold_bytes,
            uid,
            gid,
            mode: 0o755,
            hash_seed: u64::from_le_bytes(*seed.first_chunk().expect("16 bytes")),
            now: now(),
        };
        Ok(FileSystem::create(&self.pool, name, &spec)?)
    }

    /// Removes a file system and all that is in it; refused while it is mounted.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] while the file system is mounted; else the failure of removing the
    /// tag.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let mounted = self.mounted();
        if let Some(tree) = mounted.get(name) {
            return Err(Failure::busy(format!("{name:?} {}", tree.place(": unmount it first"))));
        }
        Ok(FileSystem::remove(&self.pool, name)?)
    }

    /// Mounts the file system called `name`.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] if the file system is mounted already,
    /// [`ferrite_pool::FailureKind::Refused`] if this machine or `mounting` rules the mount out, else the failure of
    /// opening the file system, of the folder or of the kernel.
    pub fn mount(&self, name: &str, mounting: &Mounting) -> Result<FsReport, Failure> {
        let mut mounted = self.mounted();
        if let Some(tree) = mounted.get(name) {
            let place = tree.place(" already; a second view of it: `mount --bind`");
            return Err(Failure::busy(format!("{name:?} {place}")));
        }
        if let Some(missing) = lacks::to_mount_in_line() {
            return Err(Failure::refused(format!("mounting on {}: {missing}", mounting.point.display())));
        }
        self.ensure_lifted_by_root(mounting)?;
        let fs = self.open(name, mounting.data, mounting.read_only)?;
        self.dry.lock().clear();
        self.ensure_place(&mounting.point)?;
        let waits = !self.pool.memory().fence_is_durable();
        let least = if waits || fs.tier().is_some() { THREADS_WAITING } else { THREADS_MIN };
        let options = MountOptions {
            source: mount_source(&self.path, name),
            cached: mounting.cached,
            allow_other: mounting.allow_other,
            read_only: mounting.read_only,
            suid: mounting.suid,
            dev: mounting.dev,
            reserve_percent: mounting.reserve_percent,
            threads: std::thread::available_parallelism().map_or(least, |n| n.get().max(least)),
        };
        let point = &mounting.point;
        let open = machine::user().and_then(|(user, _)| folder::open_to_mount(point, user));
        let started = open.and_then(|_open| Mounted::start(&fs, point, &options));
        let there = started.map_err(|error| mounting_on(point, error))?;
        mounted.insert(name.into(), MountedFs { fs, mounted: there, mounting: mounting.clone() });
        drop(mounted);
        self.report(name)
    }

    /// Makes the folder `point` if it does not exist, and refuses a place that cannot be mounted on.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Refused`] if the mount would hide the pool, else the failure of the folder.
    pub fn ensure_place(&self, point: &Path) -> Result<(), Failure> {
        ensure_own_links(point).map_err(|error| mounting_on(point, error))?;
        folder::make(point).map_err(Failure::failed)?;
        self.ensure_not_hidden(point)
    }

    /// Refuses a folder that contains the pool: the mount would hide the pool and its sockets.
    fn ensure_not_hidden(&self, point: &Path) -> Result<(), Failure> {
        let looking = |error| Failure::failed(format!("looking at {}: {error}", point.display()));
        let found = point.canonicalize().map_err(looking)?;
        if !self.path.starts_with(&found) {
            return Ok(());
        }
        let (pool, point) = (self.path.display(), point.display());
        Err(Failure::refused(format!(
            "the pool {pool} lies in {point} and would be hidden by what is mounted there: name another folder"
        )))
    }

    /// Answers a program that reads and writes files by itself.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::NotFound`] if the file system is not mounted, else the failure of the
    /// request; the kind [`ferrite_pool::FailureKind::Refused`] if every request must go through the mount.
    pub fn answer(&self, caller: &Caller, request: &ClientRequest) -> Result<ServiceReply, Failure> {
        let name = request.file_system();
        let mounted = self.mounted.lock();
        let tree = mounted.get(name).ok_or_else(|| not_mounted(name))?;
        let is_flush = matches!(request, ClientRequest::DirectFlush { .. });
        if tree.mounting.cached && !is_flush {
            return Err(Failure::refused(format!(
                "{name:?} is mounted --cached: the kernel keeps writes back, so every access goes through the mount"
            )));
        }
        if let Some(why) = self.sees_all.filter(|_| !is_flush) {
            return Err(Failure::refused(format!("{why}, so every access goes through the mount")));
        }
        let fs = Arc::clone(&tree.fs);
        drop(mounted);
        Ok(fs.answer(self.boot_id, caller, request)?)
    }

    /// Ends the sessions of the program at the other end of `connection`, which has ended.
    pub fn end_sessions_of(&self, connection: u64) {
        let all: Vec<_> = self.mounted.lock().values().map(|tree| Arc::clone(&tree.fs)).collect();
        all.iter().for_each(|fs| fs.end_sessions_of(connection));
    }

    fn open(&self, name: &str, data: Option<DataMode>, read_only: bool) -> Result<Arc<FileSystem>, Failure> {
        let options = FsOptions { data, read_only, clock: Arc::new(now) };
        let opening = TierOpening { open: &|address| AddressOpener.open(address), nonce: machine::random() as u16 };
        Ok(FileSystem::open_tiered(Arc::clone(&self.pool), name, options, &opening)?)
    }

    /// Takes the SSDs of `name` that a later life of the pool has used.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] while the file system is mounted; else the failure of an SSD.
    fn adopt_ssds(&self, name: &str, lose: Option<u64>, progress: ProgressCall<'_>) -> Result<AdoptedSsds, Failure> {
        let mounted = self.mounted();
        if let Some(tree) = mounted.get(name) {
            return Err(Failure::busy(format!("{name:?} {}", tree.place(": unmount it first"))));
        }
        let options = FsOptions { data: None, read_only: false, clock: Arc::new(now) };
        let opening = TierOpening { open: &|address| AddressOpener.open(address), nonce: machine::random() as u16 };
        Ok(adopt_ssds(&self.pool, name, options, &opening, lose, progress)?)
    }

    /// Refuses a file system that was found by a mount of another process: an earlier pool at the same path has mounts
    /// of the same source.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Refused`] if the mount belongs to another server.
    pub fn ensure_ours(&self, which: &Which) -> Result<(), Failure> {
        let Some(SeenMount { point, device }) = &which.seen else { return Ok(()) };
        let is_it = |tree: &MountedFs| tree.mounted.device().is_none_or(|ours| ours == *device);
        if self.mounted().get(&which.name).is_some_and(is_it) {
            return Ok(());
        }
        let (pool, typed) = (self.path.display(), quoted(point));
        Err(Failure::refused(format!(
            "what is mounted on {} is not of the server that has {pool} now: its pool was called so before, or is in another root; \
             `umount {typed}` unmounts it, without root `fusermount3 -u {typed}`",
            in_line(point)
        )))
    }

    /// Unmounts the file system called `name`; refused while it is in use.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] while the file system is in use; the failure of a file system that
    /// is not mounted, of the kernel, or of the flush.
    pub fn unmount(&self, name: &str) -> Result<(), Failure> {
        let mut mounted = self.mounted.lock();
        let tree = mounted.get_mut(name).ok_or_else(|| not_mounted(name))?;
        let point = tree.mounted.seen_at().unwrap_or_else(|| tree.mounted.point().into()).display().to_string();
        tree.mounted.unmount().map_err(|error| match error {
            NotUnmounted::Busy(users) if users.is_empty() => Failure::busy(format!("{point} is in use")),
            NotUnmounted::Busy(users) => Failure::busy(format!("{point} is in use by {}", users.join(", "))),
            NotUnmounted::Io(error) => Failure::failed(format!("unmounting {point}: {error}")),
        })?;
        let tree = mounted.remove(name).expect("found above");
        tree.fs.dismiss();
        Ok(tree.fs.flush()?)
    }

    /// Unmounts the file systems that are not in use. Returns the reasons why others stay mounted.
    pub fn unmount_unused(&self) -> Vec<String> {
        let names: Vec<String> = self.mounted.lock().keys().cloned().collect();
        names.iter().filter_map(|name| Some(self.unmount(name).err()?.message)).collect()
    }

    /// Describes the file system called `name`.
    ///
    /// # Errors
    /// The failure of opening the file system, if it is not mounted.
    pub fn report(&self, name: &str) -> Result<FsReport, Failure> {
        let mounted = self.mounted();
        let tree = mounted.get(name);
        let fs = match tree {
            Some(tree) => Arc::clone(&tree.fs),
            None => self.open(name, None, true)?,
        };
        let seen = tree.and_then(|tree| tree.mounted.seen_at());
        Ok(FsReport {
            name: name.into(),
            mounted_on: tree.map(|tree| seen.clone().unwrap_or_else(|| tree.mounted.point().into())),
            out_of_sight: tree.is_some() && seen.is_none(),
            cached: tree.is_some_and(|tree| tree.mounting.cached),
            read_only: tree.is_some_and(|tree| tree.mounting.read_only),
            data: fs.data_mode(),
            space: fs.statfs(),
            awaited_processes: fs.awaited_processes(),
            tier: fs.tier(),
        })
    }

    /// Detaches all mounts, even if programs use them.
    fn abandon_all(&self) -> Result<(), Failure> {
        let mounted = std::mem::take(&mut *self.mounted.lock());
        let ended = mounted.into_values().map(|tree| {
            let point = tree.mounted.point().display().to_string();
            tree.fs.dismiss();
            let doing = |error| Failure::failed(format!("unmounting {point}: {error}"));
            let unmounted = tree.mounted.abandon().map_err(doing);
            unmounted.and(tree.fs.flush().map_err(Failure::from))
        });
        ended.fold(Ok(()), Result::and)
    }
}

impl Freeze for Filesystems {
    /// Mounted file systems stop by themselves.
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare_of_unopened(&self) -> bool {
        // The thread that holds the lock may wait for the caller.
        let Some(mounted) = self.mounted.try_lock() else { return false };
        let is_idle = |tag: &Arc<Tag>| tag.kind == TagKind::FILES && !mounted.contains_key(&tag.name);
        let may_have_some = |tag: &Arc<Tag>| !self.dry.lock().contains(&tag.generation);
        let mut idle = self.pool.tags().into_iter().filter(is_idle).filter(may_have_some);
        idle.any(|tag| self.give_of(&tag))
    }
}

impl Filesystems {
    /// Opens the file system of `tag` and frees the space that it can spare. Returns true if that was any.
    fn give_of(&self, tag: &Tag) -> bool {
        // The error of a file system that cannot be opened is reported when it is mounted.
        let gave = self.open(&tag.name, None, false).is_ok_and(|fs| fs.spare());
        self.dry.lock().insert(tag.generation);
        gave
    }
}

fn not_mounted(name: &str) -> Failure {
    Failure::not_found(format!("{name:?} is not mounted"))
}

fn mounting_on(point: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("mounting on {}: {error}", point.display()))
}

/// Returns the names of the file systems of `pool`, by name.
pub fn names(pool: &Pool) -> Vec<String> {
    let tags = pool.tags();
    tags.iter().filter(|tag| tag.kind == TagKind::FILES).map(|tag| tag.name.clone()).collect()
}
