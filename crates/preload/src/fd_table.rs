//! The table: the description of each descriptor of this program that is on a Ferrite mount.
//!
//! It lies in memory that the kernel wipes in a child of fork (LD6). Entries are read under a pin; a removed entry is
//! dropped after all pins have ended.
//!
//! Unsafe because entries are shared owners that are read without counting, and because of the mapping.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{mem, ptr};

use ferrite_memory::{Pin, pin};

use crate::closing_fd::fd_gate;
use crate::description::Description;
use crate::{deferred_drop, wipe_mark};

/// Descriptors beyond this are the kernel's.
pub const FDS: usize = 1 << 16;
/// stdin, stdout, stderr: the C library uses them by itself.
pub const STANDARD: std::ops::Range<c_int> = 0..3;

type TableEntry = AtomicPtr<Description>;

static TABLE: AtomicPtr<TableEntry> = AtomicPtr::new(ptr::null_mut());
/// The end of the entries that were ever used.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// The number of changes of each entry.
static CHANGES: [AtomicU32; FDS] = [const { AtomicU32::new(0) }; FDS];

/// Creates the table, once. Without it every call goes to the kernel.
pub fn make() {
    // One more entry marks the table as valid: in a child it is wiped.
    let bytes = (FDS + 1) * size_of::<TableEntry>();
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let table = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if table == libc::MAP_FAILED {
        return;
    }
    // SAFETY: the mapping was made above.
    if unsafe { libc::madvise(table, bytes, libc::MADV_WIPEONFORK) } == 0 {
        fd_gate::prepare();
        let entries: *mut TableEntry = table.cast();
        TABLE.store(entries, Ordering::Release);
        // SAFETY: the table has one entry more than FDS, which has room for the mark, and is never unmapped.
        wipe_mark::register(unsafe { &*entries.add(FDS).cast::<AtomicBool>() });
        reset_in_child();
    }
}

/// Marks the table as valid: it was just created, or wiped and all its entries are forgotten.
pub fn reset_in_child() {
    if let Some(mark) = wipe_mark::registered() {
        fd_gate::reset_in_child();
        mark.store(true, Ordering::Release);
    }
}

#[inline]
fn entry(fd: c_int) -> Option<&'static TableEntry> {
    // As an unsigned number a negative one lies beyond.
    let (table, at) = (TABLE.load(Ordering::Acquire), fd as u32 as usize);
    if at >= FDS || table.is_null() {
        return None;
    }
    // SAFETY: the table has FDS entries, all zero at first, which is a null pointer, and is never unmapped.
    Some(unsafe { &*table.add(at) })
}

/// Calls `work` with the description of `fd`, if it has one. `work` must not wait.
#[inline]
pub fn with<T>(fd: c_int, work: impl FnOnce(PinnedEntry<'_>) -> T) -> Option<T> {
    pinned(fd, |it, _| work(it))
}

/// Calls `work` with the description of `fd` and the pin, if it has one.
#[inline(always)]
pub fn pinned<T>(fd: c_int, work: impl FnOnce(PinnedEntry<'_>, &Pin) -> T) -> Option<T> {
    let entry = entry(fd)?;
    if entry.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let pin = pin();
    let found = entry.load(Ordering::Acquire);
    // SAFETY: an entry owns its description, and the thread that removes it waits for this pin.
    unsafe { found.as_ref() }.map(|it| work(PinnedEntry(it), &pin))
}

/// Returns a share of the description of `fd`, for a caller that waits.
pub fn held(fd: c_int) -> Option<Arc<Description>> {
    with(fd, |found| found.kept())
}

/// A description of an entry, valid under the pin under which it was found.
#[derive(Clone, Copy)]
pub struct PinnedEntry<'pin>(&'pin Description);

impl PinnedEntry<'_> {
    /// Returns a share that outlives the pin.
    pub fn kept(self) -> Arc<Description> {
        // SAFETY: it came from Arc::into_raw, and its entry has a share while this thread is pinned.
        unsafe { Arc::increment_strong_count(ptr::from_ref(self.0)) };
        // SAFETY: the share that was just added.
        unsafe { Arc::from_raw(ptr::from_ref(self.0)) }
    }
}

impl Deref for PinnedEntry<'_> {
    type Target = Description;

    fn deref(&self) -> &Description {
        self.0
    }
}

/// Sets the entry of `fd` to `description`, and drops the previous one.
pub fn put(fd: c_int, description: Arc<Description>) {
    drop(exchange(fd, description));
}

/// Sets the entry of `fd` to `description`. Returns the previous one.
pub fn exchange(fd: c_int, description: Arc<Description>) -> Option<TakenEntry> {
    let entry = entry(fd)?;
    TOP.fetch_max(fd as usize + 1, Ordering::Relaxed);
    description.is_entered();
    count_change(fd);
    TakenEntry::of(entry.swap(Arc::into_raw(description).cast_mut(), Ordering::AcqRel))
}

/// Returns the number of changes of the entry of `fd`: an entry that is the same with the same count was so all the
/// time.
pub fn changes(fd: c_int) -> u32 {
    CHANGES.get(fd as u32 as usize).map_or(0, |changes| changes.load(Ordering::Acquire))
}

/// Counts a change of the entry of `fd`, before the change: counted afterwards, a thread that finds it changed back
/// might miss it.
fn count_change(fd: c_int) {
    if let Some(changes) = CHANGES.get(fd as u32 as usize) {
        changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns true if `fd` has a description.
pub fn has(fd: c_int) -> bool {
    entry(fd).is_some_and(|entry| !entry.load(Ordering::Relaxed).is_null())
}

/// Returns true if the table has an entry for `fd`.
pub fn has_room(fd: c_int) -> bool {
    entry(fd).is_some()
}

/// Removes the entry of `fd`.
#[inline]
pub fn take(fd: c_int) -> Option<TakenEntry> {
    let entry = entry(fd)?;
    if entry.load(Ordering::Relaxed).is_null() {
        return None;
    }
    count_change(fd);
    TakenEntry::of(entry.swap(ptr::null_mut(), Ordering::AcqRel))
}

/// Sets the entry of `fd` to `to`, or to nothing, if it was `gate`, which is never dropped: nothing is waited for.
/// Returns true if it was.
pub fn replace(fd: c_int, gate: &Arc<Description>, to: Option<Arc<Description>>) -> bool {
    let Some(entry) = entry(fd) else { return false };
    let (found, put) = (Arc::as_ptr(gate).cast_mut(), to.as_ref().map_or(ptr::null(), Arc::as_ptr).cast_mut());
    if entry.load(Ordering::Relaxed) != found {
        return false;
    }
    to.iter().for_each(|it| it.is_entered());
    count_change(fd);
    let is_done = entry.compare_exchange(found, put, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if is_done {
        // SAFETY: the share that the entry had.
        unsafe { Arc::decrement_strong_count(found) };
        // The entry has the share of this one now.
        mem::forget(to);
    } else {
        to.iter().for_each(|it| it.is_taken());
    }
    is_done
}

/// Returns the descriptors with a description, and the descriptions.
pub fn all() -> impl Iterator<Item = (c_int, Arc<Description>)> {
    (0..TOP.load(Ordering::Relaxed) as c_int).filter_map(|fd| held(fd).map(|description| (fd, description)))
}

/// A removed entry; when it is dropped, its description is dropped after its last user.
pub struct TakenEntry(Option<Arc<Description>>);

impl TakenEntry {
    fn of(raw: *mut Description) -> Option<Self> {
        // SAFETY: entries come from Arc::into_raw, and this one is in the table no more.
        let description = (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })?;
        description.is_taken();
        Some(Self(Some(description)))
    }

    pub fn kept(&self) -> Option<Arc<Description>> {
        self.0.clone()
    }
}

impl Drop for TakenEntry {
    fn drop(&mut self) {
        let Some(description) = self.0.take() else { return };
        let inside = crate::reentrancy::enter();
        if inside.is_none() || pin().seat().is_none() {
            // In a signal handler a wait would be for the code that it interrupted (LD5), so this is never dropped.
            return mem::forget(description);
        }
        deferred_drop::drop_later(description);
    }
}
