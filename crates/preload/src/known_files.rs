//! The files on Ferrite mounts that this process has open: found at each open, by one query to the kernel.
//!
//! Unsafe because the kernel writes its data about a file to a local value.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Weak};
use std::{hint, mem};

use crate::closing_fd::fd_gate;
use crate::description::Description;
use crate::ferrite_mounts::{self, FerriteMount};
use crate::fork_lock::ForkLock;
use crate::leased_file::LeasedFile;
use crate::{deferred_drop, fd_table, real, reentrancy, signals, wipe_mark};

/// Mounts by the identity that the kernel never reuses; `None` for other mounts.
type MountsById = BTreeMap<u64, Option<Arc<FerriteMount>>>;

/// A file: its device, which all mounts of its file system share and no other has while a file is open, and its inode.
pub type FileId = (u64, u64);

#[derive(Default)]
struct KnownFiles {
    mounts: MountsById,
    files: BTreeMap<FileId, Weak<LeasedFile>>,
    /// Files of which this process has a shared mapping, as its children have too.
    mapped: BTreeSet<FileId>,
    /// Files that were opened since closed ones were last removed.
    opened: usize,
}

static KNOWN: ForkLock<KnownFiles> =
    ForkLock::new(KnownFiles { mounts: BTreeMap::new(), files: BTreeMap::new(), mapped: BTreeSet::new(), opened: 0 });

/// The number of opened files after which closed ones are removed.
const SWEEP: usize = 1024;
/// More memory than any operation here allocates at a time.
const SPARE: usize = 64 << 10;
const SET_IDS: u16 = (libc::S_ISUID | libc::S_ISGID) as u16;
/// `STATX_MNT_ID_UNIQUE` (Linux 6.8 and later).
const MOUNT: u32 = 0x4000;

/// Flags of opens that read and write nothing, or must not update times.
const KERNELS: c_int = libc::O_PATH | libc::O_NOATIME;
/// Access by `ioctl` alone, in Linux.
const NEITHER: c_int = libc::O_ACCMODE;

/// Registers `fd`, which was just opened with `flags`, if its file is on a Ferrite mount.
pub fn open(fd: c_int, flags: c_int) {
    let is_kernels = flags & KERNELS != 0 || flags & libc::O_ACCMODE == NEITHER;
    if !fd_table::has_room(fd) || fd_table::STANDARD.contains(&fd) || is_kernels || reentrancy::is_off() {
        return;
    }
    let errno = real::errno();
    // Most files are not, which costs no more than the query.
    let found = asked(fd).filter(may_be_ours);
    match found {
        Some(_) if signals::is_on_own_stack() => fd_gate::mark_as_kernels(fd),
        Some(found) => enter(fd, flags, &found),
        None => {}
    }
    real::set_errno(errno);
}

/// Returns true if there is memory to work with; a limit (RLIMIT_AS) may leave none, and a failed allocation here ends
/// the program. The allocator keeps the memory. For a thread that is inside: a signal handler would wait for the
/// allocator (LD5).
fn has_memory() -> bool {
    let mut spare = Vec::<u8>::new();
    let is_had = spare.try_reserve_exact(SPARE).is_ok();
    // An allocation that is never read may be optimized away.
    hint::black_box(&spare);
    is_had
}

/// Looks up the file of `fd`, for which a mount may have to be found: not on the small stack of a handler.
#[inline(never)]
fn enter(fd: c_int, flags: c_int, found: &libc::statx) {
    let Some(_inside) = reentrancy::enter() else { return };
    if !has_memory() {
        fd_gate::mark_as_kernels(fd);
    } else if let Some((_, file)) = KNOWN.lock().file(found) {
        fd_table::put(fd, Arc::new(Description::new(file, flags)));
    }
}

fn may_be_ours(found: &libc::statx) -> bool {
    let is_regular = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    is_regular && found.stx_dev_major == 0 && found.stx_mask & MOUNT != 0
}

/// Queries the kernel's own knowledge of `fd`: no server is asked.
fn asked(fd: c_int) -> Option<libc::statx> {
    statx(fd, libc::AT_STATX_DONT_SYNC, libc::STATX_TYPE | libc::STATX_INO | libc::STATX_MODE | MOUNT)
}

/// Returns the identity of the file of `fd`.
pub fn id_of(fd: c_int) -> Option<FileId> {
    asked(fd).map(|found| (libc::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

fn statx(fd: c_int, flags: c_int, what: c_uint) -> Option<libc::statx> {
    // SAFETY: all zeros is a valid statx.
    let mut found: libc::statx = unsafe { mem::zeroed() };
    // SAFETY: an empty C string, and a live value that the kernel fills.
    let done = unsafe { libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH | flags, what, &raw mut found) };
    (done == 0).then_some(found)
}

/// Makes the kernel query the size of the file of `fd`, unless it knows that no process writes to it directly (LD7).
pub fn query_size(fd: c_int) {
    let errno = real::errno();
    statx(fd, 0, libc::STATX_SIZE);
    real::set_errno(errno);
}

/// Queries the size, and waits for an append of the kernel (FG11). A seek for data takes the file's lock in the kernel,
/// and moves the offset only if it finds some; no file has data so far out.
pub fn query_end(fd: c_int) {
    let errno = real::errno();
    real::moved(fd, i64::MAX, libc::SEEK_DATA);
    real::set_errno(errno);
    query_size(fd);
}

/// Makes all writes to the mount of `fd` durable, if it is Ferrite's; `None` if that failed.
pub fn persist_mount(fd: c_int) -> Option<()> {
    let Some(_inside) = reentrancy::enter() else { return Some(()) };
    // The reason is in [`persist_all`].
    let found = if wipe_mark::is_void() { None } else { asked(fd) };
    if let Some(mount) = found.and_then(|found| KNOWN.lock().mount(&found)) {
        mount.persist()?;
    }
    // The asked server may have replaced the server of this mount, without its pending writes. Any answer of the latter
    // shows that it still lives.
    statx(fd, libc::AT_STATX_FORCE_SYNC, libc::STATX_SIZE).map(drop)
}

/// Makes all writes to Ferrite's mounts durable, by their servers.
pub fn persist_all() {
    if wipe_mark::is_void() {
        // Another thread of a parent may hold the known files for good.
        return;
    }
    let mounts: Vec<_> = KNOWN.lock().mounts.values().flatten().cloned().collect();
    // sync(2) reports no error.
    mounts.iter().for_each(|mount| _ = mount.persist());
    ferrite_mounts::persist_others(&mounts);
}

impl KnownFiles {
    /// Returns the mount of `found`, if it is Ferrite's.
    fn mount(&mut self, found: &libc::statx) -> Option<Arc<FerriteMount>> {
        if found.stx_dev_major != 0 || found.stx_mask & MOUNT == 0 {
            return None;
        }
        if !self.mounts.contains_key(&found.stx_mnt_id) {
            // The state of an owner that has ended is dropped before the next one is met.
            self.mounts.values().flatten().for_each(|mount| mount.end_if_over());
            let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
            self.mounts.insert(found.stx_mnt_id, ferrite_mounts::find(device).map(Arc::new));
        }
        self.mounts.get(&found.stx_mnt_id)?.as_ref().map(Arc::clone)
    }

    /// Returns the file of `found`, if it is on a Ferrite mount.
    fn file(&mut self, found: &libc::statx) -> Option<(FileId, Arc<LeasedFile>)> {
        let mount = self.mount(found)?;
        self.sweep();
        let id = (libc::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino);
        let file = self.files.entry(id).or_default();
        let file = file.upgrade().unwrap_or_else(|| {
            let made = Arc::new(LeasedFile::new(mount, found.stx_ino, found.stx_mode & SET_IDS != 0));
            if self.mapped.contains(&id) {
                made.map();
            }
            *file = Arc::downgrade(&made);
            made
        });
        Some((id, file))
    }

    fn sweep(&mut self) {
        self.opened += 1;
        if self.opened >= SWEEP {
            self.opened = 0;
            self.files.retain(|_, file| file.strong_count() > 0);
        }
    }
}

/// Records a shared mapping of the file of `fd`: from now on the file is the kernel's.
pub fn map(fd: c_int) {
    if reentrancy::is_off() {
        return;
    }
    if let Some(_inside) = reentrancy::enter()
        && let Some((id, file)) = asked(fd).filter(may_be_ours).and_then(|found| KNOWN.lock().file(&found))
    {
        KNOWN.lock().mapped.insert(id);
        file.map();
    }
}

/// Releases all leases and ends all sessions: this process is about to become another program.
pub fn end_all() {
    let (files, mounts): (Vec<_>, Vec<_>) = {
        let known = KNOWN.lock();
        let files = known.files.values().filter_map(Weak::upgrade).collect();
        (files, known.mounts.values().flatten().cloned().collect())
    };
    files.iter().for_each(|file| file.release_lease());
    mounts.iter().for_each(|mount| mount.end());
}

/// Ends all access of this process to pools, while other threads run. Open descriptors stay open.
pub fn withdraw_all() {
    let mounts: Vec<_> = KNOWN.lock().mounts.values().flatten().cloned().collect();
    signals::with_fatal_signals(|| mounts.iter().for_each(|mount| mount.withdraw(deferred_drop::wait_for_others)));
}

/// Locks the known files until [`thaw`] or [`forget_in_child`].
pub fn freeze() {
    mem::forget(KNOWN.lock());
}

pub fn thaw() {
    KNOWN.open();
}

/// Forgets the parent's files in a child: its files are those that it opens itself; its mappings are its parent's.
pub fn forget_in_child() {
    KNOWN.open();
    let mut known = mem::take(&mut *KNOWN.lock());
    KNOWN.lock().mapped = mem::take(&mut known.mapped);
    known.mounts.values().flatten().for_each(|mount| mount.forget_in_child());
    // Leases are the parent's.
    mem::forget(known);
}

#[cfg(test)]
mod tests;
