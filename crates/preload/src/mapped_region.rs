//! The guest that this program maps by the file that `FERRITE_REGION` names (`ferrite guest run`).
//!
//! ```text
//!   the file   V bytes long; the kernel refuses to write to it
//!   mmap       connects to the pool's owner, borrows the guest, maps the region and starts its two threads
//!   munmap     ends the threads, and releases the guest
//! ```
//!
//! LD10 and LD11 are in the module `lib`.
//!
//! Unsafe because the program's places and lengths come from its own calls.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{env, fmt, fs, mem};

use ferrite_guest::{BorrowedGuest, GuestRegion};
use ferrite_memory::{RegionPlace, planted};

use crate::fork_lock::ForkLock;
use crate::known_files::{self, FileId};
use crate::{own_fds, real, reentrancy, wipe_mark};

const PAGE: usize = 4096;
const BOTH_RIGHTS: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Advice that a region ignores, because it changes no byte of a shared mapping.
const HINTS: [c_int; 14] = [
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_DONTFORK,
    libc::MADV_MERGEABLE,
    libc::MADV_UNMERGEABLE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
    libc::MADV_DODUMP,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
];

/// The file that stands for the region, and the guest.
struct RegionFile {
    id: FileId,
    size: usize,
    pool: PathBuf,
    guest: String,
}

static FILE: OnceLock<Option<RegionFile>> = OnceLock::new();
static REGION: ForkLock<Option<GuestRegion>> = ForkLock::new(None);
/// True from the begin of a mapping to the end of its release.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// The region, if its length is not zero.
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The arguments of mmap.
#[derive(Clone, Copy)]
pub struct MapCall {
    pub place: *mut c_void,
    pub len: usize,
    pub rights: c_int,
    pub flags: c_int,
    pub fd: c_int,
    pub at: i64,
}

/// A refused call: its error number, and the reason.
struct RefusedCall(c_int, String);

/// Reads which guest the program may map, when the library is loaded.
pub fn begin() {
    let found = || {
        let (path, pool) = (env::var_os("FERRITE_REGION")?, env::var_os("FERRITE_REGION_POOL")?);
        let (guest, file) = (env::var("FERRITE_REGION_GUEST").ok()?, fs::File::open(path).ok()?);
        let id = known_files::id_of(file.as_raw_fd())?;
        let size = usize::try_from(file.metadata().ok()?.len()).ok()?;
        Some(RegionFile { id, size, pool: pool.into(), guest })
    };
    let _ = FILE.set(found());
}

/// Maps the region if `call` names its file. Returns `None` for any other file.
pub fn map(call: &MapCall) -> Option<*mut c_void> {
    let file = FILE.get()?.as_ref()?;
    if call.fd < 0 || call.flags & libc::MAP_ANONYMOUS != 0 {
        return None;
    }
    let errno = real::errno();
    let is_other = known_files::id_of(call.fd) != Some(file.id);
    real::set_errno(errno);
    if is_other {
        return None;
    }
    let busy = RefusedCall(libc::EBUSY, "a handler interrupted another call: map it outside of handlers".into());
    let mapped = match reentrancy::enter() {
        Some(_inside) => file.map(call),
        None => Err(busy),
    };
    Some(mapped.unwrap_or_else(|refused| {
        file.refuse(&refused);
        libc::MAP_FAILED
    }))
}

impl RegionFile {
    fn map(&self, call: &MapCall) -> Result<*mut c_void, RefusedCall> {
        self.check(call)?;
        if wipe_mark::is_void() {
            return Err(RefusedCall(libc::EBUSY, "this process is a copy of another one: start it by a fork".into()));
        }
        if IS_TAKEN.swap(true, Ordering::Acquire) {
            return Err(RefusedCall(libc::EBUSY, "it is mapped already: a program maps it once".into()));
        }
        let region = own_fds::making(|| self.open(call));
        let region = region.inspect_err(|_| IS_TAKEN.store(false, Ordering::Release))?;
        let base = region.region().base();
        BASE.store(base as usize, Ordering::Relaxed);
        LEN.store(self.size, Ordering::Release);
        *REGION.lock() = Some(region);
        Ok(base.cast())
    }

    /// Refuses all mappings but that of the whole region (LD10).
    fn check(&self, call: &MapCall) -> Result<(), RefusedCall> {
        let sharing = call.flags & libc::MAP_TYPE;
        let refuse = |why: String| Err(RefusedCall(libc::EINVAL, why));
        if (call.at != 0 || call.len.next_multiple_of(PAGE) != self.size) && !planted!("preload: a part is mapped") {
            return refuse(format!(
                "map all of its {} bytes at offset 0, not {} bytes at {}",
                self.size, call.len, call.at
            ));
        }
        if sharing != libc::MAP_SHARED && sharing != libc::MAP_SHARED_VALIDATE {
            return refuse("map it as MAP_SHARED: a private mapping would keep no store".into());
        }
        if call.rights != BOTH_RIGHTS {
            return refuse("map it for reading and writing".into());
        }
        let is_fixed = call.flags & libc::MAP_FIXED != 0;
        if call.flags & libc::MAP_FIXED_NOREPLACE == libc::MAP_FIXED_NOREPLACE
            || is_fixed && !call.place.addr().is_multiple_of(PAGE)
        {
            return refuse("map it anywhere, or over whole pages with MAP_FIXED".into());
        }
        Ok(())
    }

    fn open(&self, call: &MapCall) -> Result<GuestRegion, RefusedCall> {
        // SAFETY: the program has the kernel replace what is there.
        let place = || unsafe { RegionPlace::new(call.place.cast(), self.size as u64) };
        let place = (call.flags & libc::MAP_FIXED != 0).then(place);
        // The region's threads are inside the library as long as they live.
        let begin = || mem::forget(reentrancy::enter());
        let borrowed = BorrowedGuest { pool: &self.pool, name: &self.guest, place, begin };
        GuestRegion::borrow(borrowed).map_err(|error| RefusedCall(libc::EBUSY, error.to_string()))
    }

    /// Sets `errno` and prints the reason.
    fn refuse(&self, RefusedCall(errno, why): &RefusedCall) {
        print(format_args!("ferrite: the region of the guest {:?}: {why}\n", self.guest));
        real::set_errno(*errno);
    }
}

fn print(line: fmt::Arguments<'_>) {
    let line = line.to_string();
    // SAFETY: the bytes of a string. If standard error is closed, the error number has to do.
    unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// A range of addresses, and the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overlap {
    Nothing,
    Part,
    Whole,
}

fn overlap(place: *const c_void, len: usize) -> Overlap {
    let (size, base) = (LEN.load(Ordering::Acquire), BASE.load(Ordering::Relaxed));
    let (start, end) = (place.addr(), place.addr().saturating_add(len));
    if size == 0 || end <= base || start >= base + size || wipe_mark::is_void() {
        Overlap::Nothing
    } else if start == base && len.next_multiple_of(PAGE) == size {
        Overlap::Whole
    } else {
        Overlap::Part
    }
}

/// Returns true if the program has mapped the region.
pub fn is_mapped() -> bool {
    LEN.load(Ordering::Acquire) > 0 && !wipe_mark::is_void()
}

/// Refuses a call named `call`, which the library does not allow while the region is mapped (LD11).
pub fn refuse(call: &CStr, why: &str) -> c_int {
    if let (Some(_inside), Some(Some(file))) = (reentrancy::enter(), FILE.get()) {
        file.refuse(&RefusedCall(libc::EBUSY, format!("{}: {why}", call.to_string_lossy())));
    }
    real::set_errno(libc::EBUSY);
    -1
}

/// Answers a call that changes the mappings of `len` bytes from `place` on. Returns `None` if the kernel answers it.
pub fn changed(call: &CStr, place: *const c_void, len: usize) -> Option<c_int> {
    let is_refused = overlap(place, len) != Overlap::Nothing && !reentrancy::is();
    let is_kernels = planted!("preload: a part of the region is changed");
    (is_refused && !is_kernels).then(|| refuse(call, "a region stays as it is until all of it is unmapped"))
}

/// Answers mprotect. Returns `None` if the kernel answers it.
pub fn protect(place: *const c_void, len: usize, rights: c_int) -> Option<c_int> {
    match overlap(place, len) {
        Overlap::Whole if rights == BOTH_RIGHTS => Some(0),
        _ => changed(c"mprotect", place, len),
    }
}

/// Answers madvise. Returns `None` if the kernel answers it.
pub fn advise(place: *const c_void, len: usize, advice: c_int) -> Option<c_int> {
    let is_populating = matches!(advice, libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE);
    if reentrancy::is() || is_populating || overlap(place, len) == Overlap::Nothing {
        return None;
    }
    if HINTS.contains(&advice) { Some(0) } else { changed(c"madvise", place, len) }
}

/// Answers munmap: unmaps all of the region. Returns `None` if the kernel answers it.
pub fn unmap(place: *const c_void, len: usize) -> Option<c_int> {
    if reentrancy::is() || overlap(place, len) != Overlap::Whole {
        return changed(c"munmap", place, len);
    }
    let _inside = reentrancy::enter();
    LEN.store(0, Ordering::Release);
    let region = REGION.lock().take();
    own_fds::making(|| drop(region));
    IS_TAKEN.store(false, Ordering::Release);
    Some(0)
}

/// Locks the region until [`thaw`] or [`forget_in_child`].
pub fn freeze() {
    mem::forget(REGION.lock());
}

pub fn thaw() {
    REGION.open();
}

/// Forgets the parent's region in a child, which has nothing of it.
pub fn forget_in_child() {
    REGION.open();
    mem::forget(REGION.lock().take());
    LEN.store(0, Ordering::Release);
    IS_TAKEN.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests;
